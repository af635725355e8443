//! Applying desired state: server-side apply with our field manager and owner reference, and nothing at all when the
//! cache shows that it would change nothing.
//!
//! Skipping is safe because we remember what we applied: the same configuration again is skipped while the object is
//! as we left it, or still holds every field we want. After a restart nothing is remembered, so the first apply of
//! each child is sent; the server answers it without a change.
//!
//! An object of somebody else is never taken over unasked (`standing` says whose it is): with our owner reference on
//! it, it would even be deleted with our object.

use std::borrow::Cow;
use std::sync::Arc;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Verb, WriteOutcome};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::core::Request as Path;
use serde_json::{Value, json};

use super::Context;
use super::memo::{Applied, hash_of};
use super::standing::Standing;
use crate::contrast::{differences, without_nulls};
use crate::declared::Deed;
use crate::error::Error;
use crate::kind::{Kind, Metadata, is_namespaced, key, revision_of};
use crate::talk::{Attempt, call};

/// What happens to an object of the wanted name that is not ours.
#[derive(Clone, Copy)]
enum Stranger {
    /// It is left alone; `is_owned` when we want to be its owner.
    Refused { is_owned: bool },
    /// It becomes ours.
    Adopted,
}

/// A configuration ready to be sent.
struct Prepared {
    key: Key,
    body: Value,
    hash: u64,
}

impl<K: Kind> Context<K> {
    /// Makes the server hold what `desired` says, owned by our object: created, changed or left alone. A missing
    /// namespace means ours. Returns the object as it is now (for a kind watched by metadata only, a skipped apply
    /// returns what was passed in). An object of that name that is not ours is left alone, and that is an error:
    /// [`adopt`](Self::adopt) takes it over.
    pub async fn apply<T: Kind>(&self, desired: T) -> Result<Arc<T>, Error> {
        self.apply_as(self.owned_by_us(desired)?, Stranger::Refused { is_owned: true }).await
    }

    /// Like [`apply`](Self::apply), without an owner: for objects in other namespaces, which must be cleaned up by
    /// hand.
    pub async fn apply_unowned<T: Kind>(&self, desired: T) -> Result<Arc<T>, Error> {
        self.apply_as(desired, Stranger::Refused { is_owned: false }).await
    }

    /// Like [`apply`](Self::apply), and an object of that name that somebody else made becomes ours: changed as
    /// `desired` says, and deleted with our object.
    pub async fn adopt<T: Kind>(&self, desired: T) -> Result<Arc<T>, Error> {
        self.apply_as(self.owned_by_us(desired)?, Stranger::Adopted).await
    }

    /// Like [`apply_unowned`](Self::apply_unowned), and somebody else's object is changed as well: for fields of
    /// objects that we share with others.
    pub async fn adopt_unowned<T: Kind>(&self, desired: T) -> Result<Arc<T>, Error> {
        self.apply_as(desired, Stranger::Adopted).await
    }

    fn owned_by_us<T: Kind>(&self, mut desired: T) -> Result<T, Error> {
        let reference = self.owner_reference::<T>(&desired)?;
        let owners = desired.meta_mut().owner_references.get_or_insert_default();
        owners.retain(|other| other.uid != reference.uid);
        owners.push(reference);
        Ok(desired)
    }

    async fn apply_as<T: Kind>(&self, mut desired: T, stranger: Stranger) -> Result<Arc<T>, Error> {
        if is_namespaced::<T>() && desired.meta().namespace.is_none() {
            desired.meta_mut().namespace = Some(self.0.key.namespace().to_owned());
        }
        let prepared = prepare(&desired)?;
        if let Some(current) = self.unchanged(&prepared, &desired) {
            self.note(Verb::Apply, &prepared.key, WriteOutcome::Skipped);
            return Ok(current);
        }
        let answer = match stranger {
            Stranger::Refused { is_owned } => self.apply_if_ours(&prepared, is_owned).await,
            Stranger::Adopted => self.send_apply(&prepared, &Standing::Free).await,
        };
        let object: T = self.noting_failure(Verb::Apply, &prepared.key, answer)?;
        let revision = revision_of(&object);
        self.note(Verb::Apply, &prepared.key, WriteOutcome::Done { revision: Some(revision) });
        let applied = Applied { configuration: prepared.hash, revision };
        let (memo, uid) = (&self.0.engine.memo, object.meta().uid.as_deref());
        if self.is_watched::<T>(&prepared.key) {
            memo.set(prepared.key, applied, uid);
        } else {
            memo.set_unwatched(prepared.key, applied, uid);
        }
        Ok(match self.cache::<T>() {
            Ok(cache) => cache.wrote(object, self.writer()),
            Err(_) => Arc::new(object),
        })
    }

    /// Usually one request: what is not known here, or is no longer so, is asked from the server.
    async fn apply_if_ours<T: Kind>(&self, prepared: &Prepared, is_owned: bool) -> Result<T, Error> {
        let known = self.known_standing::<T>(&prepared.key);
        let refusal = match &known {
            None => None,
            Some(known) => match self.send_apply(prepared, known).await {
                // A uid that is another one by now makes the configuration invalid, one that is gone is a conflict.
                Err(error) if matches!(error.code(), Some(409 | 422)) => Some(error),
                answer => return answer,
            },
        };
        let asked = self.ask_standing::<T>(&prepared.key, is_owned).await?;
        match refusal {
            Some(error) if known.as_ref() == Some(&asked) => Err(error),
            _ => self.send_apply(prepared, &asked).await,
        }
    }

    async fn send_apply<T: Kind>(&self, prepared: &Prepared, standing: &Standing) -> Result<T, Error> {
        self.admitted(Verb::Apply, &prepared.key)?;
        let body = match standing {
            Standing::Foreign { holder } => {
                return Err(Error::NotOurs { target: prepared.key.clone(), holder: holder.clone() });
            }
            Standing::Ours { uid: Some(uid) } => {
                let mut body = prepared.body.clone();
                body["metadata"]["uid"] = json!(uid);
                Cow::Owned(body)
            }
            Standing::Ours { uid: None } | Standing::Free => Cow::Borrowed(&prepared.body),
        };
        self.0.engine.ground.declared.expect::<T>(Deed::Apply);
        let namespace = Some(prepared.key.namespace()).filter(|namespace| !namespace.is_empty());
        let path = Path::new(T::url_path(&(), namespace));
        let params = PatchParams::apply(self.0.engine.ground.name.as_str()).force();
        let request = path.patch(prepared.key.name(), &params, &Patch::Apply(&*body));
        let attempt = Attempt { verb: "apply", target: prepared.key.as_str() };
        call(&self.0.engine.ground.client, attempt, request).await
    }

    /// The current object, if applying would change nothing. Notes drift when it would only because others changed it.
    fn unchanged<T: Kind>(&self, prepared: &Prepared, desired: &T) -> Option<Arc<T>> {
        let applied = self.0.engine.memo.get(&prepared.key)?;
        if applied.configuration != prepared.hash {
            return None;
        }
        if let Ok(metadata) = self.synced::<Metadata<T>>() {
            let current = metadata.get(&prepared.key)?;
            return (revision_of(&*current) == applied.revision).then(|| Arc::new(desired.clone()));
        }
        let current = self.synced::<T>().ok()?.get(&prepared.key)?;
        if revision_of(&*current) == applied.revision {
            return Some(current);
        }
        let diff = differences(&prepared.body, &serde_json::to_value(&*current).ok()?);
        if diff.is_empty() {
            return Some(current);
        }
        let engine = &self.0.engine;
        let entry = Entry::Drifted { object: self.0.key.clone(), target: prepared.key.to_string(), diff };
        engine.ground.journal.record(&engine.source, entry);
        None
    }

    pub(super) fn owner_reference<T: Kind>(&self, child: &T) -> Result<OwnerReference, Error> {
        let ours = self.0.key.namespace();
        let theirs = child.meta().namespace.as_deref().unwrap_or(ours);
        if !ours.is_empty() && (theirs != ours || !is_namespaced::<T>()) {
            return Err(Error::Invalid(format!(
                "{} cannot own {} {}: an owner must be cluster-scoped or in the same namespace; use apply_unowned",
                self.0.key,
                T::kind(&()),
                child.meta().name.as_deref().unwrap_or_default(),
            )));
        }
        let reference =
            self.0.object.controller_owner_ref(&()).ok_or_else(|| {
                Error::Invalid(format!("{} has no uid and cannot own anything", self.0.key))
            })?;
        // A foreground deletion of the owner waits for the child, as with every other framework.
        Ok(OwnerReference { block_owner_deletion: Some(true), ..reference })
    }

    /// Refuses the write when the right to write is lost.
    pub(crate) fn admitted(&self, verb: Verb, target: &Key) -> Result<(), Error> {
        self.0.engine.admit(&self.0.claim, &self.0.key, verb, target)
    }

    pub(super) fn note(&self, verb: Verb, target: &Key, outcome: WriteOutcome) {
        self.0.engine.note(&self.0.key, verb, target, outcome);
    }

    pub(super) fn noting_failure<T>(
        &self,
        verb: Verb,
        target: &Key,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        self.0.engine.noting(&self.0.key, verb, target, answer)
    }
}

/// The configuration as it is sent: typed, named, without what only the server sets.
fn prepare<T: Kind>(desired: &T) -> Result<Prepared, Error> {
    let meta = desired.meta();
    let name = meta
        .name
        .as_deref()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Error::Invalid(format!("a {} to be applied needs a name", T::kind(&()))))?;
    let key = key::<T>(meta.namespace.as_deref().unwrap_or_default(), name);
    let body = serde_json::to_value(desired).map_err(|error| Error::Invalid(format!("{key}: {error}")))?;
    let mut body = without_nulls(body);
    body["apiVersion"] = json!(T::api_version(&()));
    body["kind"] = json!(T::kind(&()));
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
    Ok(Prepared { key, body, hash })
}
