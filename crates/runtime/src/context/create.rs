//! Creating and patching: for children whose names the server chooses, and for changes of objects we do not own whole.
//!
//! Where the name is known, [`apply`](Context::apply) is the better verb: it may be repeated. A create with
//! `generateName` may not, so its caller counts what is there first; the cache shows the new object at once. The body
//! and the cached type may differ, so that a full object is written and only a projection of it is kept.

use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::journal::{Verb, WriteOutcome};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::Request as Path;
use serde_json::{Value, json};

use super::Context;
use crate::contrast::without_nulls;
use crate::declared::Deed;
use crate::error::Error;
use crate::kind::{Kind, is_namespaced, key, key_of, revision_of};
use crate::talk::{Attempt, call};

impl<K: Kind> Context<K> {
    /// Creates `desired`, owned by our object, in its namespace unless it names one, and keeps it as a `T`.
    pub async fn create<B: Kind, T: Kind>(&self, mut desired: B) -> Result<Arc<T>, Error> {
        let reference = self.owner_reference(&desired)?;
        desired.meta_mut().owner_references.get_or_insert_default().push(reference);
        self.create_unowned(desired).await
    }

    /// Like [`create`](Self::create), without an owner: for what is to outlive our object.
    pub async fn create_unowned<B: Kind, T: Kind>(&self, mut desired: B) -> Result<Arc<T>, Error> {
        if is_namespaced::<B>() && desired.meta().namespace.is_none() {
            desired.meta_mut().namespace = Some(self.0.key.namespace().to_owned());
        }
        let meta = desired.meta();
        let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or_default();
        let target = key::<B>(meta.namespace.as_deref().unwrap_or_default(), name);
        self.admitted(Verb::Create, &target)?;
        self.0.engine.ground.declared.expect::<B>(Deed::Create);
        let body = body_of(&desired, &target)?;
        let params = PostParams {
            field_manager: Some(self.0.engine.ground.name.to_string()),
            ..PostParams::default()
        };
        let url = Path::new(B::url_path(&(), meta.namespace.as_deref()));
        let attempt = Attempt { verb: "create", target: target.as_str() };
        let answer = call(&self.0.engine.ground.client, attempt, url.create(&params, body)).await;
        let object: T = self.noting_failure(Verb::Create, &target, answer)?;
        Ok(self.keep(Verb::Create, object))
    }

    /// Merges `patch` into this very object (by its uid). A `resourceVersion` in the patch makes it conditional.
    pub async fn patch<T: Kind>(&self, object: &T, patch: Value) -> Result<Arc<T>, Error> {
        let patch = addressed(object, patch);
        self.send_patch(object, None, &Patch::Merge(patch)).await
    }

    /// Like [`patch`](Self::patch) for kinds of Kubernetes itself: lists are merged item by item, and directives such
    /// as `$deleteFromPrimitiveList` take single items out, so nobody else's are touched.
    pub async fn patch_strategic<T: Kind>(&self, object: &T, patch: Value) -> Result<Arc<T>, Error> {
        let patch = addressed(object, patch);
        self.send_patch(object, None, &Patch::Strategic(patch)).await
    }

    /// Like [`patch`](Self::patch), through the status subresource and at once:
    /// [`status`](Self::status) is for the end of a reconcile.
    pub async fn patch_status<T: Kind>(&self, object: &T, patch: Value) -> Result<Arc<T>, Error> {
        let patch = addressed(object, patch);
        self.send_patch(object, Some("status"), &Patch::Merge(patch)).await
    }

    async fn send_patch<T: Kind>(
        &self,
        object: &T,
        subresource: Option<&str>,
        patch: &Patch<Value>,
    ) -> Result<Arc<T>, Error> {
        let target = key_of(object);
        let verb = if subresource.is_some() { Verb::Status } else { Verb::Patch };
        self.admitted(verb, &target)?;
        let deed = if subresource.is_some() { Deed::PatchStatus } else { Deed::Patch };
        self.0.engine.ground.declared.expect::<T>(deed);
        let url = Path::new(T::url_path(&(), object.meta().namespace.as_deref()));
        let manager = self.0.engine.ground.name.to_string();
        let params = PatchParams { field_manager: Some(manager), ..PatchParams::default() };
        let request = match subresource {
            None => url.patch(target.name(), &params, patch),
            Some(subresource) => url.patch_subresource(subresource, target.name(), &params, patch),
        };
        let attempt = Attempt { verb: "patch", target: target.as_str() };
        let answer = call(&self.0.engine.ground.client, attempt, request).await;
        let object: T = self.noting_failure(verb, &target, answer)?;
        Ok(self.keep(verb, object))
    }

    /// Notes the write and lays its outcome over the cache, if the kind is watched.
    fn keep<T: Kind>(&self, verb: Verb, object: T) -> Arc<T> {
        let (key, revision) = (key_of(&object), revision_of(&object));
        self.note(verb, &key, WriteOutcome::Done { revision: Some(revision) });
        let is_last = object.meta().deletion_timestamp.is_some()
            && object.meta().finalizers.as_deref().unwrap_or_default().is_empty()
            && object.meta().deletion_grace_period_seconds.is_none_or(|seconds| seconds == 0);
        match self.cache::<T>() {
            // Taking the last finalizer off an object in deletion removes it.
            Ok(cache) if is_last => {
                cache.deleted(&key, object.meta().uid.as_deref());
                Arc::new(object)
            }
            Ok(cache) => cache.wrote(object, self.writer()),
            Err(_) => Arc::new(object),
        }
    }
}

/// A patch that applies to this very object only.
fn addressed<T: Kind>(object: &T, mut patch: Value) -> Value {
    patch["metadata"]["uid"] = json!(object.meta().uid);
    patch
}

fn body_of<B: Kind>(desired: &B, target: &Key) -> Result<Vec<u8>, Error> {
    let invalid = |error: serde_json::Error| Error::Invalid(format!("{target}: {error}"));
    let mut body = without_nulls(serde_json::to_value(desired).map_err(invalid)?);
    body["apiVersion"] = json!(B::api_version(&()));
    body["kind"] = json!(B::kind(&()));
    serde_json::to_vec(&body).map_err(invalid)
}
