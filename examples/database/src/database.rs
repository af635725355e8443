//! The kind Database: what people write and what they read.

use std::collections::BTreeMap;

use homeostat::prelude::*;

/// A PostgreSQL database.
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
    /// The database's name in PostgreSQL; it cannot be changed, because the data is created with it.
    #[serde(default = "app")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf",
        "message": "cannot be changed: the data was created with it; create another Database"}]))]
    pub database_name: String,
    /// The role that owns the database; it cannot be changed either.
    #[serde(default = "app")]
    #[schemars(length(max = 63), regex(pattern = r"^[a-z_][a-z0-9_]*$"))]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf",
        "message": "cannot be changed: the data was created with it; create another Database"}]))]
    pub username: String,
    /// The port; without it, a free one is chosen and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024, max = 65535))]
    pub port: Option<u16>,
    /// The most clients at a time.
    #[serde(default = "max_connections")]
    #[schemars(range(min = 5, max = 1000))]
    pub max_connections: u16,
    /// Further settings, as in `postgresql.conf`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// What happens to the data when the object is deleted.
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

/// Enough for an application and a person; each connection costs PostgreSQL memory whether it is used or not.
fn max_connections() -> u16 {
    20
}

/// What happens to the data when the object is deleted.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// It is deleted, too.
    #[default]
    Delete,
    /// It stays; a Database with the same name finds it again.
    Retain,
}

/// The status. The condition `Ready` says whether the database answers, and if not, why.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// Whether it answers.
    #[serde(default)]
    pub ready: bool,
    /// Its address: `127.0.0.1:5433`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The port that was chosen or requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The Secret with `username`, `password` and `database`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[allow(missing_docs, reason = "flattened: its fields are documented where they are declared")]
    #[serde(flatten)]
    pub base: StandardStatus,
}
