//! What an admission plugin is: a name, the resources it is interested in, and what it does in the two stages.
//!
//! Plugins are plain functions of the request, the object and the store. Few of them wait for anything; those that do
//! return a boxed future, the others cost one call.

use futures::future::BoxFuture;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use serde_json::Value;

use super::AdmissionRequest;

/// An admission plugin.
pub(super) struct Plugin {
    /// Its name, as in `--disable-admission-plugins`.
    pub(super) name: &'static str,
    /// Returns whether it ever looks at objects of a resource, with all their subresources. Asked once for each row.
    pub(super) is_interested: fn(&Resource) -> bool,
    /// What it does in the mutating stage.
    pub(super) mutate: Mutate,
    /// What it does in the validating stage.
    pub(super) validate: Validate,
}

impl Plugin {
    /// A plugin that does nothing, to be extended.
    pub(super) const fn new(name: &'static str, is_interested: fn(&Resource) -> bool) -> Self {
        Self { name, is_interested, mutate: Mutate::Never, validate: Validate::Never }
    }
}

/// The mutating stage of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Mutate {
    /// It has none.
    Never,
    /// Changes the object, and never refuses it.
    Fill(fn(&AdmissionRequest<'_>, &mut Value)),
    /// Changes or refuses the object.
    Now(fn(&AdmissionRequest<'_>, &mut Value) -> Result<(), Status>),
    /// The same, but may have to wait.
    Waiting(for<'a> fn(&'a AdmissionRequest<'a>, &'a mut Value) -> BoxFuture<'a, Result<(), Status>>),
}

/// The validating stage of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Validate {
    /// It has none.
    Never,
    /// Refuses the object, or not.
    Now(fn(&AdmissionRequest<'_>, &Value) -> Result<(), Status>),
    /// The same, but may have to wait.
    Waiting(for<'a> fn(&'a AdmissionRequest<'a>, &'a Value) -> BoxFuture<'a, Result<(), Status>>),
}
