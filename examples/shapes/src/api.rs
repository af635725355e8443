//! The messages between the cloud and its clients: shapes, pages of them, and changes, as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shape::Form;

/// A shape in the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudShape {
    /// Its name: unique, and never changed.
    pub name: String,
    /// Its form.
    #[serde(rename = "type")]
    pub form: Form,
    /// Its color.
    pub color: String,
    /// Labels for the clients' own use.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A page of the list of all shapes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shapes {
    /// In order of their names.
    pub shapes: Vec<CloudShape>,
    /// The name with which the next page begins.
    pub next: Option<String>,
}

/// A change of a shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// `create`, `update` or `delete`.
    pub verb: String,
    /// The name of the shape.
    pub name: String,
    /// The shape after the change; `None` if it is gone.
    pub shape: Option<CloudShape>,
    /// Who did it, by the header `x-by`.
    pub by: String,
}

/// What is broken on purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Faults {
    /// Every call is answered with 500.
    pub errors: bool,
    /// How long every call takes.
    pub latency_ms: u64,
    /// Updates are accepted and change nothing.
    pub ignores_updates: bool,
    /// Lists are empty.
    pub empty_lists: bool,
    /// Reads show the shapes as they were this long ago.
    pub lag_ms: u64,
}
