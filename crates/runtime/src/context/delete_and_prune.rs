//! Deletes one object, or every owned object that is no longer desired.

use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::{Verb, WriteOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Preconditions};
use serde_json::Value;

use super::{Context, ReconcileRun};
use crate::error::Error;
use crate::kind::{Kind, KindInfo, info};
use crate::request::{RequestLabel, send_request};
use crate::rights::declared_writes::WriteVerb;

impl<K: Kind> Context<K> {
    /// Deletes the objects of this kind that our object controls and that are not in `keep`. Returns how many it
    /// deleted.
    pub async fn prune<T: Kind>(&self, keep: &[Arc<T>]) -> Result<usize, Error> {
        let kept = keep.iter().map(|object| info::<T>().key_of(object.meta())).collect();
        self.run.prune(info::<T>(), kept).await
    }

    /// Deletes this object (identified by its uid). Returns whether it existed; an object that is already being deleted
    /// is left alone.
    pub async fn delete<T: Kind>(&self, object: &T) -> Result<bool, Error> {
        self.run.delete(info::<T>(), object.meta()).await
    }
}

impl ReconcileRun {
    // The futures here and below are boxed, so that they are compiled here and not in every operator.
    fn prune(&self, info: &'static KindInfo, kept: Vec<Key>) -> BoxFuture<'_, Result<usize, Error>> {
        Box::pin(async move {
            let mut count = 0;
            for object in self.owned(info)? {
                let meta = object.meta();
                if self.controls(meta) && !kept.contains(&info.key_of(meta)) {
                    count += usize::from(self.send_delete(info, meta).await?);
                }
            }
            Ok(count)
        })
    }

    fn delete<'a>(
        &'a self,
        info: &'static KindInfo,
        meta: &'a ObjectMeta,
    ) -> BoxFuture<'a, Result<bool, Error>> {
        Box::pin(self.send_delete(info, meta))
    }

    async fn send_delete(&self, info: &'static KindInfo, meta: &ObjectMeta) -> Result<bool, Error> {
        if meta.deletion_timestamp.is_some() {
            return Ok(false);
        }
        let key = info.key_of(meta);
        self.check_right(Verb::Delete, &key)?;
        self.controller.operator.declared.warn_unless_declared(info, WriteVerb::Delete);
        let precondition = Preconditions { uid: meta.uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(precondition);
        let request = info.path(meta.namespace.as_deref()).delete(key.name(), &params);
        let label = RequestLabel { verb: "delete", target: key.as_str() };
        let answer: Result<Value, Error> =
            send_request(&self.controller.operator.client, label, request).await;
        // It is gone, or someone else has created it again: either way it is not ours to delete.
        if matches!(&answer, Err(error) if error.is_not_found() || error.is_conflict()) {
            return Ok(false);
        }
        let answer = self.record_failure(Verb::Delete, &key, answer)?;
        self.record_write(Verb::Delete, &key, WriteOutcome::Done { revision: None });
        self.controller.last_applied.forget(&key);
        if let Ok(cache) = self.cache(info) {
            // An object that waits for its finalizers or its grace period is returned in the response.
            match (info.decode)(&answer.to_string()) {
                Ok(rest) if rest.meta().uid == meta.uid && rest.meta().deletion_timestamp.is_some() => {
                    cache.wrote(rest, self.writer());
                }
                _ => cache.deleted(&key, meta.uid.as_deref()),
            }
        }
        Ok(true)
    }

    fn controls(&self, child: &ObjectMeta) -> bool {
        let references = child.owner_references.as_deref().unwrap_or_default();
        references.iter().any(|reference| {
            reference.controller == Some(true) && Some(&reference.uid) == self.object.meta().uid.as_ref()
        })
    }
}
