//! The information that plugins get about a write, besides the object: who does what to which resource, and how.

use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_api::status::Status;
use homeostat_api::storage::Storage;
use homeostat_store::Snapshot;
use serde_json::Value;

use super::Admission;
use super::reinvocation::Reinvocation;
use crate::auth::Identity;
use crate::backend::Backend;
use crate::request::Query;
use crate::serve::SlotHandle;
use crate::stored::encode;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// Returns its name in rules and reviews.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write that plugins are asked about.
pub(crate) struct AdmissionRequest<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) admission: &'a Admission,
    pub(crate) resource: &'a Resource,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) operation: Operation,
    /// Empty for cluster-scoped objects.
    pub(crate) namespace: &'a str,
    /// Empty for a new object.
    pub(crate) name: &'a str,
    /// The stored object; `None` for a new one.
    pub(crate) old: Option<&'a Value>,
    pub(crate) user: &'a Identity,
    pub(crate) is_dry_run: bool,
    /// The options of the request.
    pub(crate) options: RequestOptions<'a>,
    /// Warnings for the client, whatever becomes of the request.
    pub(crate) warnings: &'a AdmissionWarnings,
    /// The slot of the request, which it gives away while it waits for others.
    pub(crate) slot: Option<&'a SlotHandle>,
    /// What is known of earlier rounds of mutating plugins.
    pub(crate) state: ReinvocationState,
}

/// What is known of earlier rounds of mutating plugins.
#[derive(Debug, Default)]
pub(crate) struct ReinvocationState(Mutex<Reinvocation>);

/// The options of a request.
#[derive(Clone, Copy)]
pub(crate) enum RequestOptions<'a> {
    /// Those of a write, in its query.
    Write(&'a Query),
    /// Those of a deletion, as `DeleteOptions`.
    Delete(&'a Value),
}

/// Warnings of plugins, each once: a write may be tried several times.
#[derive(Debug, Default)]
pub(crate) struct AdmissionWarnings(Mutex<Vec<String>>);

impl AdmissionWarnings {
    fn add(&self, warning: String) {
        let mut all = self.all();
        if !all.contains(&warning) {
            all.push(warning);
        }
    }

    /// Takes the warnings.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.all())
    }

    fn all(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AdmissionRequest<'_> {
    /// Returns whether this is a write of objects of this kind themselves, not of a subresource.
    pub(crate) fn is_of(&self, kind: &BuiltInKind) -> bool {
        self.subresource.is_empty() && is_kind(self.resource, kind)
    }

    /// Returns the refusal of this write.
    pub(crate) fn forbidden(&self, object: &Value, why: &str) -> Status {
        Status::forbidden(&self.resource.about(self.shown_name(object)), why)
    }

    /// Returns the name that refusals show: a new object may not have one yet.
    pub(crate) fn shown_name<'a>(&'a self, object: &'a Value) -> &'a str {
        let generated = || Some(meta::text(object, "generateName")).filter(|name| !name.is_empty());
        let given = || Some(meta::name(object)).filter(|name| !name.is_empty());
        let on_path = Some(self.name).filter(|name| !name.is_empty());
        on_path.or_else(given).or_else(generated).unwrap_or("Unknown")
    }

    /// Returns what is known of earlier rounds of mutating plugins.
    pub(super) fn reinvocation(&self) -> MutexGuard<'_, Reinvocation> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a warning for the client.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.add(warning);
    }

    /// Returns the stored objects now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.backend.store.snapshot()
    }

    /// Returns a stored object of a built-in kind.
    pub(crate) fn load(&self, kind: &BuiltInKind, namespace: &str, name: &str) -> Option<Value> {
        self.snapshot().get(&kind.storage().key(namespace, name)).map(|entry| encode::decode(entry))
    }

    /// Returns all stored objects of a built-in kind, those of one namespace if it has any.
    pub(crate) fn load_all(&self, kind: &BuiltInKind, namespace: &str) -> Vec<Value> {
        let storage = kind.storage();
        let prefix = if namespace.is_empty() { storage.prefix() } else { storage.prefix_in(namespace) };
        self.snapshot().range(&prefix, "").map(|entry| encode::decode(entry)).collect()
    }
}

/// Returns whether a row serves objects of this kind, in whatever version.
pub(crate) fn is_kind(resource: &Resource, kind: &BuiltInKind) -> bool {
    matches!(resource.storage(), Storage::BuiltIn(..)) && resource.storage() == kind.storage()
}
