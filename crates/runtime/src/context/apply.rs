//! Applies desired state: server-side apply with our field manager and owner reference, skipped if the cache shows that
//! it would change nothing.
//!
//! Skipping is safe because we remember what we applied: the same configuration is skipped while the object is in the
//! state in which we left it, or still has every field that we set. After a restart nothing is remembered, so the first
//! apply of each child is sent; the server does not change anything.
//!
//! Another owner's object is never taken over unless requested (`object_ownership` finds the owner): with our owner
//! reference on it, it would even be deleted with our object.

use std::borrow::Cow;
use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use homeostat_core::{FieldDiff, Key};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::object_ownership::ObjectOwnership;
use super::{Context, ReconcileRun};
use crate::error::Error;
use crate::json_diff::{differences, without_nulls};
use crate::kind::object::{Object, downcast_object};
use crate::kind::{Kind, KindInfo, info};
use crate::request::{RequestLabel, call_object};
use crate::rights::declared_writes::WriteVerb;
use crate::shared::last_applied::{AppliedFingerprint, hash_of};

/// What to do about an object that has the desired name but is not ours.
#[derive(Clone, Copy)]
enum ForeignObjectPolicy {
    /// It is left alone; `is_owned` is set if we would become its owner.
    Refused { is_owned: bool },
    /// It becomes ours.
    Adopted,
}

/// A configuration ready to be sent.
struct Prepared {
    info: &'static KindInfo,
    key: Key,
    body: Value,
    hash: u64,
}

/// What to do about a configuration.
enum ApplyPlan {
    /// Nothing: this is the current object.
    Unchanged(Arc<Object>),
    /// Send it.
    Changed(Prepared),
}

impl<K: Kind> Context<K> {
    /// Applies `desired`, owned by our object: creates the object, changes it or leaves it alone. A missing namespace
    /// means our object's namespace. Returns the current object (for a kind whose metadata alone is kept, a skipped
    /// apply returns its argument). If an object with that name exists that is not ours, it is left alone and an error
    /// is returned: [`adopt`](Self::adopt) takes it over.
    pub async fn apply<T: Kind>(&self, mut desired: T) -> Result<Arc<T>, Error> {
        self.run.add_owner(info::<T>(), desired.meta_mut())?;
        self.apply_as(desired, ForeignObjectPolicy::Refused { is_owned: true }).await
    }

    /// Like [`apply`](Self::apply), without an owner; use it for objects in other namespaces, which you must clean up
    /// yourself.
    pub async fn apply_unowned<T: Kind>(&self, desired: T) -> Result<Arc<T>, Error> {
        self.apply_as(desired, ForeignObjectPolicy::Refused { is_owned: false }).await
    }

    /// Like [`apply`](Self::apply), but also takes over an object with that name that someone else created: it is
    /// changed to `desired`, and deleted with our object.
    pub async fn adopt<T: Kind>(&self, mut desired: T) -> Result<Arc<T>, Error> {
        self.run.add_owner(info::<T>(), desired.meta_mut())?;
        self.apply_as(desired, ForeignObjectPolicy::Adopted).await
    }

    /// Like [`apply_unowned`](Self::apply_unowned), but also changes an object that someone else created; use it for
    /// fields of objects that we share with others.
    pub async fn adopt_unowned<T: Kind>(&self, desired: T) -> Result<Arc<T>, Error> {
        self.apply_as(desired, ForeignObjectPolicy::Adopted).await
    }

    async fn apply_as<T: Kind>(
        &self,
        mut desired: T,
        stranger: ForeignObjectPolicy,
    ) -> Result<Arc<T>, Error> {
        self.run.settle_namespace(info::<T>(), desired.meta_mut());
        let object = match self.run.prepare(info::<T>(), Arc::new(desired))? {
            ApplyPlan::Unchanged(object) => object,
            ApplyPlan::Changed(prepared) => self.run.apply(prepared, stranger).await?,
        };
        Ok(downcast_object(object))
    }
}

impl ReconcileRun {
    /// Makes our object an owner.
    fn add_owner(&self, info: &KindInfo, desired: &mut ObjectMeta) -> Result<(), Error> {
        let reference = self.owner_reference(info, desired)?;
        let owners = desired.owner_references.get_or_insert_default();
        owners.retain(|other| other.uid != reference.uid);
        owners.push(reference);
        Ok(())
    }

    /// Prepares a configuration and decides whether to send it.
    fn prepare(&self, info: &'static KindInfo, desired: Arc<Object>) -> Result<ApplyPlan, Error> {
        let prepared = prepare_configuration(info, &*desired)?;
        let Some(current) = self.find_unchanged(&prepared, desired) else {
            return Ok(ApplyPlan::Changed(prepared));
        };
        self.record_write(Verb::Apply, &prepared.key, WriteOutcome::Skipped);
        Ok(ApplyPlan::Unchanged(current))
    }

    /// Applies a prepared configuration. The future is boxed here, so that it is compiled here and not in every
    /// operator.
    fn apply(
        &self,
        prepared: Prepared,
        stranger: ForeignObjectPolicy,
    ) -> BoxFuture<'_, Result<Arc<Object>, Error>> {
        Box::pin(self.apply_prepared(prepared, stranger))
    }

    async fn apply_prepared(
        &self,
        prepared: Prepared,
        stranger: ForeignObjectPolicy,
    ) -> Result<Arc<Object>, Error> {
        let diff = self.apply_diff(&prepared);
        let answer = match stranger {
            ForeignObjectPolicy::Refused { is_owned } => self.apply_if_ours(&prepared, is_owned).await,
            ForeignObjectPolicy::Adopted => self.send_apply(&prepared, &ObjectOwnership::Free).await,
        };
        let object = self.record_failure(Verb::Apply, &prepared.key, answer)?;
        let revision = object.revision();
        self.note_diff(Verb::Apply, &prepared.key, WriteOutcome::Done { revision: Some(revision) }, diff);
        let applied = AppliedFingerprint { configuration: prepared.hash, revision };
        let (last_applied, uid) = (&self.controller.last_applied, object.meta().uid.as_deref());
        if self.is_watched(prepared.info, &prepared.key) {
            last_applied.set(prepared.key, applied, uid);
        } else {
            last_applied.set_unwatched(prepared.key, applied, uid);
        }
        if let Ok(cache) = self.cache(prepared.info) {
            cache.wrote(object.clone(), self.writer());
        }
        Ok(object)
    }

    /// Returns the changes that a configuration makes to the object as it is known here; empty if the object is
    /// unknown.
    fn apply_diff(&self, prepared: &Prepared) -> FieldDiff {
        if !self.controller.operator.journal.is_kept() {
            return FieldDiff::default();
        }
        let known = self.cache(prepared.info).ok().and_then(|cache| cache.get(&prepared.key));
        let actual = known.and_then(|known| known.to_json().ok());
        actual.map(|actual| FieldDiff::toward(&prepared.key, &actual, &prepared.body)).unwrap_or_default()
    }

    /// Applies a configuration unless the object belongs to someone else. This usually takes one request: the server is
    /// asked only if the owner is not known here, or that knowledge is outdated.
    async fn apply_if_ours(&self, prepared: &Prepared, is_owned: bool) -> Result<Arc<Object>, Error> {
        let known = self.known_standing(prepared.info, &prepared.key);
        let refusal = match &known {
            None => None,
            Some(known) => match self.send_apply(prepared, known).await {
                // If the uid has changed in the meantime, the configuration is invalid; if the object is gone, it is a
                // conflict.
                Err(error) if matches!(error.code(), Some(409 | 422)) => Some(error),
                answer => return answer,
            },
        };
        let asked = self.ask_standing(prepared.info, &prepared.key, is_owned).await?;
        match refusal {
            Some(error) if known.as_ref() == Some(&asked) => Err(error),
            _ => self.send_apply(prepared, &asked).await,
        }
    }

    async fn send_apply(
        &self,
        prepared: &Prepared,
        standing: &ObjectOwnership,
    ) -> Result<Arc<Object>, Error> {
        self.check_right(Verb::Apply, &prepared.key)?;
        let body = match standing {
            ObjectOwnership::Foreign { holder } => {
                return Err(Error::NotOurs { target: prepared.key.clone(), holder: holder.clone() });
            }
            ObjectOwnership::Ours { uid: Some(uid) } => {
                let mut body = prepared.body.clone();
                body["metadata"]["uid"] = json!(uid);
                Cow::Owned(body)
            }
            ObjectOwnership::Ours { uid: None } | ObjectOwnership::Free => Cow::Borrowed(&prepared.body),
        };
        let (info, shared) = (prepared.info, &self.controller.operator);
        shared.declared.warn_unless_declared(info, WriteVerb::Apply);
        let params = PatchParams::apply(shared.name.as_str()).force();
        let path = info.path_beside(&prepared.key);
        let request = path.patch(prepared.key.name(), &params, &Patch::Apply(&*body));
        let label = RequestLabel { verb: "apply", target: prepared.key.as_str() };
        call_object(&shared.client, label, info, request).await
    }

    /// Returns the current object if applying would change nothing. Records drift if applying would change something
    /// only because others changed the object.
    fn find_unchanged(&self, prepared: &Prepared, desired: Arc<Object>) -> Option<Arc<Object>> {
        let applied = self.controller.last_applied.get(&prepared.key)?;
        if applied.configuration != prepared.hash {
            return None;
        }
        if let Some(metadata) = self.synced_metadata(prepared.info) {
            let current = metadata.get(&prepared.key)?;
            return (current.revision() == applied.revision).then_some(desired);
        }
        let current = self.synced(prepared.info).ok()?.get(&prepared.key)?;
        if current.revision() == applied.revision {
            return Some(current);
        }
        let diff = differences(&prepared.body, &current.to_json().ok()?);
        if diff.is_empty() {
            return Some(current);
        }
        let controller = &self.controller;
        let entry = Entry::Drifted { object: self.key.clone(), target: prepared.key.to_string(), diff };
        controller.operator.journal.record(&controller.source, entry);
        None
    }

    pub(super) fn owner_reference(
        &self,
        info: &KindInfo,
        child: &ObjectMeta,
    ) -> Result<OwnerReference, Error> {
        let ours = self.key.namespace();
        let theirs = child.namespace.as_deref().unwrap_or(ours);
        if !ours.is_empty() && (theirs != ours || !info.is_namespaced) {
            return Err(Error::Invalid(format!(
                "{} cannot own {} {}: an owner must be cluster-scoped or in the same namespace; use apply_unowned",
                self.key,
                info.kind,
                child.name.as_deref().unwrap_or_default(),
            )));
        }
        let reference = self.info().owner_reference(self.object.meta());
        let reference = reference
            .ok_or_else(|| Error::Invalid(format!("{} has no uid and cannot own anything", self.key)))?;
        // Foreground deletion of the owner waits for the child, as in every other framework.
        Ok(OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..reference })
    }

    /// Refuses the write if leadership was lost.
    pub(crate) fn check_right(&self, verb: Verb, target: &Key) -> Result<(), Error> {
        self.controller.refuse_if_deposed(&self.claim, &self.key, verb, target)
    }

    pub(super) fn record_write(&self, verb: Verb, target: &Key, outcome: WriteOutcome) {
        self.controller.record_write(&self.key, verb, target, outcome);
    }

    pub(super) fn note_diff(&self, verb: Verb, target: &Key, outcome: WriteOutcome, diff: FieldDiff) {
        self.controller.note_diff(&self.key, verb, target, outcome, diff);
    }

    pub(crate) fn record_failure<T>(
        &self,
        verb: Verb,
        target: &Key,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        self.controller.noting(&self.key, verb, target, answer)
    }
}

/// Returns the configuration as it is sent: with its type and name, and without fields that only the server sets.
fn prepare_configuration(info: &'static KindInfo, desired: &Object) -> Result<Prepared, Error> {
    let meta = desired.meta();
    let name = meta
        .name
        .as_deref()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Error::Invalid(format!("a {} to be applied needs a name", info.kind)))?;
    let key = info.key(meta.namespace.as_deref().unwrap_or_default(), name);
    let body = desired.to_json().map_err(|error| Error::Invalid(format!("{key}: {error}")))?;
    let mut body = without_nulls(body);
    body["apiVersion"] = json!(info.api_version);
    body["kind"] = json!(info.kind);
    if let Some(object) = body.as_object_mut() {
        object.remove("status");
    }
    if let Some(meta) = body["metadata"].as_object_mut() {
        for set_by_server in [
            "managedFields",
            "resourceVersion",
            "uid",
            "creationTimestamp",
            "generation",
            "selfLink",
            "deletionTimestamp",
        ] {
            meta.remove(set_by_server);
        }
    }
    let hash = hash_of(&body);
    Ok(Prepared { info, key, body, hash })
}
