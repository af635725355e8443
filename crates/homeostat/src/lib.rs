//! Keeps the actual state equal to the desired state; this is the crate that operators depend on.
//!
//! An operator has one function per kind, which is called with an object whenever something relevant to it has changed.
//! The function decides on the desired state, asks the [`Context`] to apply it, and returns when to call it again. See
//! `examples/greeting.rs` for a complete one.
//!
//! Everything is in the [`prelude`]; the parts are explained in [`runtime`].

#![deny(clippy::exit)]

#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "embedded")]
mod log_setup;
#[cfg(feature = "embedded")]
pub mod plan;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "embedded")]
pub use embedded::run;
pub use homeostat_core as core;
pub use homeostat_runtime as runtime;
pub use homeostat_runtime::world;
pub use homeostat_runtime::{Context, Controller, Operator};
#[cfg(feature = "sim")]
pub use homeostat_sim as sim;
pub use k8s_openapi;
pub use kube;
pub use schemars;
pub use serde;

/// The imports of an operator: `use homeostat::prelude::*;`.
pub mod prelude {
    pub use std::sync::Arc;
    pub use std::time::Duration;

    pub use homeostat_runtime::handlers::{Diff, FieldUpdate, HandlerContext, RawEvent, ValueFilter};
    pub use homeostat_runtime::{
        Action, Backoff, BuiltController, Context, Controller, Error, Fault, Handlers, Metadata, ObjectName,
        Operator, Predicate, Result, Severity, StandardStatus, changed, condition, from_json, retry_after,
        terminal,
    };
    pub use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
    pub use k8s_openapi::api::batch::v1::{CronJob, Job};
    pub use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
    pub use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
}
