//! The information that plugins get about a write, apart from the object: who does what to which resource, and with
//! which options.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Prefix;
use homeostat_store::Snapshot;
use serde_json::Value;

use super::Admission;
use super::reinvocation::Reinvocation;
use crate::auth::Identity;
use crate::backend::Backend;
use crate::request::Query;
use crate::seen_kinds::{CONFIGURATION_GROUP, RareKind};
use crate::serve::SlotHandle;
use crate::stored::encode;

/// The operation that is performed on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// Returns its name as in rules and reviews.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write, as plugins see it.
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
    /// Warnings for the client, sent whether or not the request succeeds.
    pub(crate) warnings: &'a AdmissionWarnings,
    /// The slot of the request, which is released while the request waits for webhooks.
    pub(crate) slot: Option<&'a SlotHandle>,
    /// The state of the rounds of mutating plugins.
    pub(crate) state: ReinvocationState,
}

/// The state of the rounds of mutating plugins.
#[derive(Debug, Default)]
pub(crate) struct ReinvocationState(Mutex<Reinvocation>);

/// The options of a request.
#[derive(Clone, Copy)]
pub(crate) enum RequestOptions<'a> {
    /// The options of a write, from its query.
    Write(&'a Query),
    /// The `DeleteOptions` of a deletion.
    Delete(&'a Value),
}

/// Collects the plugins' warnings and audit annotations. Each warning is kept once, since a write may be tried
/// several times.
#[derive(Debug, Default)]
pub(crate) struct AdmissionWarnings {
    warnings: Mutex<Vec<String>>,
    annotations: Mutex<BTreeMap<String, String>>,
}

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
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the annotations.
    pub(crate) fn take_annotations(&self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.annotations.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AdmissionRequest<'_> {
    /// Returns whether this writes an object of this kind itself, not a subresource.
    pub(crate) fn is_of(&self, kind: &BuiltInKind) -> bool {
        self.subresource.is_empty() && is_kind(self.resource, kind)
    }

    /// Returns the status that refuses this write.
    pub(crate) fn forbidden(&self, object: &Value, why: &str) -> Status {
        Status::forbidden(&self.resource.about(self.shown_name(object)), why)
    }

    /// Returns the name that refusals show. A new object may not have one yet.
    pub(crate) fn shown_name<'a>(&'a self, object: &'a Value) -> &'a str {
        let generated = || Some(meta::text(object, "generateName")).filter(|name| !name.is_empty());
        let given = || Some(meta::name(object)).filter(|name| !name.is_empty());
        let on_path = Some(self.name).filter(|name| !name.is_empty());
        on_path.or_else(given).or_else(generated).unwrap_or("Unknown")
    }

    /// Returns the state of the rounds of mutating plugins.
    pub(super) fn reinvocation(&self) -> MutexGuard<'_, Reinvocation> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a warning for the client.
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.add(warning);
    }

    /// Adds an annotation to the audit log. A later value replaces an earlier one, since a write may be tried several
    /// times.
    pub(crate) fn annotate(&self, key: String, value: String) {
        let annotations = &self.warnings.annotations;
        annotations.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value);
    }

    /// Returns a snapshot of the store as it is now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.backend.store.snapshot()
    }

    /// Returns whether any webhook or policy is stored.
    pub(super) fn has_configurations(&self) -> bool {
        if !self.backend.seen_kinds.may_have(RareKind::Configuration) {
            return false;
        }
        let all = Prefix::group(CONFIGURATION_GROUP);
        self.snapshot().range(&all, "").next().is_some()
    }

    /// Returns a stored object of a built-in kind.
    pub(crate) fn load(&self, kind: &BuiltInKind, namespace: &str, name: &str) -> Option<Value> {
        self.snapshot().get(&kind.storage().key(namespace, name)).map(|entry| encode::parse_entry(entry))
    }

    /// Returns all stored objects of a cluster-scoped built-in kind, of which there are few, written by few users. The
    /// objects of a namespace are as numerous and as large as its users want, so they should be visited one by one.
    pub(crate) fn load_all(&self, kind: &BuiltInKind) -> Vec<Value> {
        self.snapshot().range(&kind.storage().prefix(), "").map(|entry| encode::parse_entry(entry)).collect()
    }
}

/// Returns whether a row serves objects of this kind, in any version.
pub(crate) fn is_kind(resource: &Resource, kind: &BuiltInKind) -> bool {
    matches!(resource.storage(), ResourceIdentity::BuiltIn(..)) && resource.storage() == kind.storage()
}
