//! Defines an admission plugin: a name, the resources it is interested in, and its actions in the two stages.
//!
//! Plugins are plain functions on the request, the object and the store. The few that wait for something return a boxed
//! future; the others cost one call.

use futures::future::BoxFuture;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use serde_json::Value;

use super::AdmissionRequest;

/// An admission plugin.
pub(super) struct Plugin {
    /// The name, as in `--disable-admission-plugins`.
    pub(super) name: &'static str,
    /// Returns whether it ever looks at objects of a resource or their subresources. It is called once per row.
    pub(super) is_interested: fn(&Resource) -> bool,
    /// Whether it does nothing unless webhooks or policies are configured.
    pub(super) needs_configuration: bool,
    /// Its action in the mutating stage.
    pub(super) mutate: Mutate,
    /// Its action in the validating stage.
    pub(super) validate: Validate,
}

impl Plugin {
    /// Creates a plugin that does nothing yet.
    pub(super) const fn new(name: &'static str, is_interested: fn(&Resource) -> bool) -> Self {
        Self {
            name,
            is_interested,
            needs_configuration: false,
            mutate: Mutate::Never,
            validate: Validate::Never,
        }
    }

    /// Creates a plugin that consults the stored webhooks or policies.
    pub(super) const fn configured(name: &'static str, is_interested: fn(&Resource) -> bool) -> Self {
        Self { needs_configuration: true, ..Self::new(name, is_interested) }
    }
}

/// The mutating stage of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Mutate {
    /// The plugin has no mutating stage.
    Never,
    /// Changes the object but never refuses it.
    Fill(fn(&AdmissionRequest<'_>, &mut Value)),
    /// Changes or refuses the object.
    Now(fn(&AdmissionRequest<'_>, &mut Value) -> Result<(), Status>),
    /// Changes or refuses the object, and may wait.
    Waiting(for<'a> fn(&'a AdmissionRequest<'a>, &'a mut Value) -> BoxFuture<'a, Result<(), Status>>),
}

/// The validating stage of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Validate {
    /// The plugin has no validating stage.
    Never,
    /// Accepts or refuses the object.
    Now(fn(&AdmissionRequest<'_>, &Value) -> Result<(), Status>),
    /// Accepts or refuses the object, and may wait.
    Waiting(for<'a> fn(&'a AdmissionRequest<'a>, &'a Value) -> BoxFuture<'a, Result<(), Status>>),
}
