//! Creates and patches objects; this is for children whose names the server chooses, and for changes to objects that we
//! do not fully own.
//!
//! If the name is known, [`apply`](Context::apply) is the better choice, because it can safely be repeated. A create
//! with `generateName` cannot, so its caller counts the existing objects first; the cache shows the new object at once.
//! The body and the cached type may differ, so that a full object is written and only a projection of it is kept.

use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_core::journal::{Verb, WriteOutcome};
use homeostat_core::{FieldDiff, Key};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{Context, ReconcileRun};
use crate::error::Error;
use crate::json_diff::without_nulls;
use crate::kind::object::{Object, downcast_object};
use crate::kind::{Kind, KindInfo, info};
use crate::request::{RequestLabel, call_object};
use crate::rights::declared_writes::WriteVerb;

impl<K: Kind> Context<K> {
    /// Creates `desired`, owned by our object, in our object's namespace unless `desired` names one, and caches it as a
    /// `T`.
    pub async fn create<B: Kind, T: Kind>(&self, mut desired: B) -> Result<Arc<T>, Error> {
        let reference = self.run.owner_reference(info::<B>(), desired.meta())?;
        desired.meta_mut().owner_references.get_or_insert_default().push(reference);
        self.create_unowned(desired).await
    }

    /// Like [`create`](Self::create), without an owner; use it for objects that should outlive ours.
    pub async fn create_unowned<B: Kind, T: Kind>(&self, mut desired: B) -> Result<Arc<T>, Error> {
        self.run.settle_namespace(info::<B>(), desired.meta_mut());
        self.run.create(info::<B>(), &desired, info::<T>()).await.map(downcast_object)
    }

    /// Merges `patch` into this object (identified by its uid). A `resourceVersion` in the patch makes it conditional.
    pub async fn patch<T: Kind>(&self, object: &T, patch: Value) -> Result<Arc<T>, Error> {
        self.run.patch(info::<T>(), object, None, Patch::Merge(patch)).await.map(downcast_object)
    }

    /// Like [`patch`](Self::patch), for Kubernetes' own kinds: lists are merged item by item, and directives such as
    /// `$deleteFromPrimitiveList` remove single items, so other writers' items are not touched.
    pub async fn patch_strategic<T: Kind>(&self, object: &T, patch: Value) -> Result<Arc<T>, Error> {
        self.run.patch(info::<T>(), object, None, Patch::Strategic(patch)).await.map(downcast_object)
    }

    /// Like [`patch`](Self::patch), through the status subresource. The patch is sent at once, whereas
    /// [`status`](Self::status) is written at the end of a reconcile.
    pub async fn patch_status<T: Kind>(&self, object: &T, patch: Value) -> Result<Arc<T>, Error> {
        self.run.patch(info::<T>(), object, Some("status"), Patch::Merge(patch)).await.map(downcast_object)
    }
}

impl ReconcileRun {
    /// Puts an object of a namespaced kind into our namespace if it names none.
    pub(super) fn settle_namespace(&self, info: &KindInfo, meta: &mut ObjectMeta) {
        if info.is_namespaced && meta.namespace.is_none() {
            meta.namespace = Some(self.key.namespace().to_owned());
        }
    }

    // The futures here and below are boxed, so that they are compiled here and not in every operator.
    fn create<'a>(
        &'a self,
        info: &'static KindInfo,
        desired: &'a Object,
        kept_as: &'static KindInfo,
    ) -> BoxFuture<'a, Result<Arc<Object>, Error>> {
        Box::pin(self.send_create(info, desired, kept_as))
    }

    async fn send_create(
        &self,
        info: &'static KindInfo,
        desired: &Object,
        kept_as: &'static KindInfo,
    ) -> Result<Arc<Object>, Error> {
        let meta = desired.meta();
        let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or_default();
        let target = info.key(meta.namespace.as_deref().unwrap_or_default(), name);
        self.check_right(Verb::Create, &target)?;
        self.controller.operator.declared.warn_unless_declared(info, WriteVerb::Create);
        let body = body_of(info, desired, &target)?;
        let params = PostParams {
            field_manager: Some(self.controller.operator.name.to_string()),
            ..PostParams::default()
        };
        let request = info.path(meta.namespace.as_deref()).create(&params, body);
        let label = RequestLabel { verb: "create", target: target.as_str() };
        let answer = call_object(&self.controller.operator.client, label, kept_as, request).await;
        let object = self.record_failure(Verb::Create, &target, answer)?;
        self.record_and_cache(kept_as, Verb::Create, &object, FieldDiff::default());
        Ok(object)
    }

    fn patch<'a>(
        &'a self,
        info: &'static KindInfo,
        object: &'a Object,
        subresource: Option<&'a str>,
        patch: Patch<Value>,
    ) -> BoxFuture<'a, Result<Arc<Object>, Error>> {
        Box::pin(self.send_patch(info, object, subresource, patch))
    }

    async fn send_patch(
        &self,
        info: &'static KindInfo,
        object: &Object,
        subresource: Option<&str>,
        mut patch: Patch<Value>,
    ) -> Result<Arc<Object>, Error> {
        // The patch applies only to the object with this uid.
        if let Patch::Merge(body) | Patch::Strategic(body) = &mut patch {
            body["metadata"]["uid"] = json!(object.meta().uid);
        }
        let target = info.key_of(object.meta());
        let verb = if subresource.is_some() { Verb::Status } else { Verb::Patch };
        self.check_right(verb, &target)?;
        let write_verb = if subresource.is_some() { WriteVerb::PatchStatus } else { WriteVerb::Patch };
        self.controller.operator.declared.warn_unless_declared(info, write_verb);
        let url = info.path(object.meta().namespace.as_deref());
        let manager = self.controller.operator.name.to_string();
        let params = PatchParams { field_manager: Some(manager), ..PatchParams::default() };
        let request = match subresource {
            None => url.patch(target.name(), &params, &patch),
            Some(subresource) => url.patch_subresource(subresource, target.name(), &params, &patch),
        };
        let label = RequestLabel { verb: "patch", target: target.as_str() };
        let answer = call_object(&self.controller.operator.client, label, info, request).await;
        let written = self.record_failure(verb, &target, answer)?;
        let diff = patch_diff(&target, object, &patch);
        self.record_and_cache(info, verb, &written, diff);
        Ok(written)
    }

    /// Records the write and adds its result to the cache, if the kind is watched.
    fn record_and_cache(&self, info: &KindInfo, verb: Verb, object: &Arc<Object>, diff: FieldDiff) {
        let (key, meta) = (info.key_of(object.meta()), object.meta());
        self.note_diff(verb, &key, WriteOutcome::Done { revision: Some(object.revision()) }, diff);
        let is_last = meta.deletion_timestamp.is_some()
            && meta.finalizers.as_deref().unwrap_or_default().is_empty()
            && meta.deletion_grace_period_seconds.is_none_or(|seconds| seconds == 0);
        match self.cache(info) {
            // Removing the last finalizer of an object that is being deleted removes the object.
            Ok(cache) if is_last => cache.deleted(&key, meta.uid.as_deref()),
            Ok(cache) => cache.wrote(object.clone(), self.writer()),
            Err(_) => {}
        }
    }
}

/// Returns the changes that a patch makes to its object.
fn patch_diff(target: &Key, object: &Object, patch: &Patch<Value>) -> FieldDiff {
    match (patch, object.to_json()) {
        (Patch::Merge(body) | Patch::Strategic(body), Ok(actual)) => FieldDiff::toward(target, &actual, body),
        _ => FieldDiff::default(),
    }
}

fn body_of(info: &KindInfo, desired: &Object, target: &Key) -> Result<Vec<u8>, Error> {
    let invalid = |error: serde_json::Error| Error::Invalid(format!("{target}: {error}"));
    let mut body = without_nulls(desired.to_json().map_err(invalid)?);
    body["apiVersion"] = json!(info.api_version);
    body["kind"] = json!(info.kind);
    serde_json::to_vec(&body).map_err(invalid)
}
