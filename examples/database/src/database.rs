//! The kind: what a person writes, and what they read.

use std::collections::BTreeMap;

use homeostat::prelude::*;

/// A PostgreSQL that should be.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "database.example.com", version = "v1", kind = "Database", shortname = "db", namespaced)]
#[kube(status = "DatabaseStatus")]
#[kube(printcolumn = r#"{"name": "Ready", "type": "boolean", "jsonPath": ".status.ready"}"#)]
#[kube(printcolumn = r#"{"name": "Endpoint", "type": "string", "jsonPath": ".status.endpoint"}"#)]
#[kube(
    printcolumn = r#"{"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason"}"#
)]
#[kube(printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseSpec {
    /// The database that is made in it; for good, as the data is made with it.
    #[serde(default = "app")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf",
        "message": "cannot be changed: the data was made with it; make another Database"}]))]
    pub database_name: String,
    /// The role that owns it; for good, too.
    #[serde(default = "app")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf",
        "message": "cannot be changed: the data was made with it; make another Database"}]))]
    pub username: String,
    /// The port; without it a free one is chosen and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024, max = 65535))]
    pub port: Option<u16>,
    /// Clients at a time.
    #[serde(default = "max_connections")]
    #[schemars(range(min = 5, max = 1000))]
    pub max_connections: u16,
    /// Further settings, as in `postgresql.conf`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// What becomes of the data when the object is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

impl Default for DatabaseSpec {
    fn default() -> Self {
        Self {
            database_name: app(),
            username: app(),
            port: None,
            max_connections: max_connections(),
            parameters: BTreeMap::new(),
            deletion_policy: DeletionPolicy::default(),
        }
    }
}

fn app() -> String {
    "app".to_owned()
}

/// Enough for an application and a person; each costs PostgreSQL memory whether used or not.
fn max_connections() -> u16 {
    20
}

/// What becomes of the data when the object is deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// It is deleted, too.
    #[default]
    Delete,
    /// It stays; a Database of the same name finds it again.
    Retain,
}

/// What is known about it. The condition `Ready` says whether it answers, and if not, why.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// Does it answer?
    #[serde(default)]
    pub ready: bool,
    /// Where: `127.0.0.1:5433`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The port that was chosen, or asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The Secret with `username`, `password` and `database`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[allow(missing_docs, reason = "flattened: its fields are documented where they are declared")]
    #[serde(flatten)]
    pub base: StatusBase,
}
