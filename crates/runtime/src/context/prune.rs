//! Deleting: one object, or every owned object that is no longer wanted.

use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::journal::{Verb, WriteOutcome};
use kube::api::{DeleteParams, Preconditions};
use kube::core::Request as Path;
use serde_json::Value;

use super::Context;
use crate::declared::Deed;
use crate::error::Error;
use crate::kind::{Kind, key_of};
use crate::talk::{Attempt, call};

impl<K: Kind> Context<K> {
    /// Deletes the objects of this kind that our object controls and that are not in `keep`. Returns how many.
    pub async fn prune<T: Kind>(&self, keep: &[Arc<T>]) -> Result<usize, Error> {
        let kept: Vec<Key> = keep.iter().map(|object| key_of(&**object)).collect();
        let mut count = 0;
        for object in self.owned::<T>()? {
            if self.controls(&*object) && !kept.contains(&key_of(&*object)) {
                count += usize::from(self.delete(&*object).await?);
            }
        }
        Ok(count)
    }

    /// Deletes this very object (by its uid). Returns whether it was there; one already being deleted is left alone.
    pub async fn delete<T: Kind>(&self, object: &T) -> Result<bool, Error> {
        if object.meta().deletion_timestamp.is_some() {
            return Ok(false);
        }
        let key = key_of(object);
        self.admitted(Verb::Delete, &key)?;
        self.0.engine.ground.declared.expect::<T>(Deed::Delete);
        let precondition = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
        let params = DeleteParams::background().preconditions(precondition);
        let request =
            Path::new(T::url_path(&(), object.meta().namespace.as_deref())).delete(key.name(), &params);
        let attempt = Attempt { verb: "delete", target: key.as_str() };
        let answer: Result<Value, Error> = call(&self.0.engine.ground.client, attempt, request).await;
        // Gone already, or gone and made anew by somebody else: either way not ours to delete.
        if matches!(&answer, Err(error) if error.is_not_found() || error.is_conflict()) {
            return Ok(false);
        }
        let answer = self.noting_failure(Verb::Delete, &key, answer)?;
        self.note(Verb::Delete, &key, WriteOutcome::Done { revision: None });
        self.0.engine.memo.forget(&key);
        if let Ok(cache) = self.cache::<T>() {
            // An object that waits for its finalizers or its grace period comes back in the answer.
            match serde_json::from_value::<T>(answer) {
                Ok(rest)
                    if rest.meta().uid == object.meta().uid && rest.meta().deletion_timestamp.is_some() =>
                {
                    cache.wrote(rest, self.writer());
                }
                _ => cache.deleted(&key, object.meta().uid.as_deref()),
            }
        }
        Ok(true)
    }

    fn controls<T: Kind>(&self, child: &T) -> bool {
        let references = child.meta().owner_references.as_deref().unwrap_or_default();
        references.iter().any(|reference| {
            reference.controller == Some(true) && Some(&reference.uid) == self.0.object.meta().uid.as_ref()
        })
    }
}
