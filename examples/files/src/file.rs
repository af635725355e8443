//! The kind: what a person writes.

use homeostat::prelude::*;

/// A file that should be.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(group = "files.demo.dev", version = "v1", kind = "File", namespaced, status = "FileStatus")]
#[kube(printcolumn = r#"{"name": "Path", "type": "string", "jsonPath": ".spec.path"}"#)]
#[kube(
    printcolumn = r#"{"name": "Synced", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Synced\")].status"}"#
)]
pub struct FileSpec {
    /// Where, below the directory of the operator: `etc/motd`. No part of it may begin with a dot.
    pub path: String,
    /// What is in it.
    pub content: String,
    /// Who may read and write it, in octal as `chmod` takes it.
    #[serde(default = "readable")]
    pub mode: String,
}

fn readable() -> String {
    "0644".to_owned()
}

/// What is known about it: the condition `Synced` says whether the file is as it should be.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct FileStatus {
    #[allow(missing_docs, reason = "flattened: its fields are documented where they are declared")]
    #[serde(flatten)]
    pub base: StatusBase,
}
