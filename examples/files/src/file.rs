//! The kind File: what people write.

use homeostat::prelude::*;

/// A file in the operator's directory.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(group = "files.demo.dev", version = "v1", kind = "File", namespaced, status = "FileStatus")]
#[kube(printcolumn = r#"{"name": "Path", "type": "string", "jsonPath": ".spec.path"}"#)]
#[kube(
    printcolumn = r#"{"name": "Synced", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Synced\")].status"}"#
)]
pub struct FileSpec {
    /// Its path below the operator's directory: `etc/motd`. No part of it may begin with a dot.
    pub path: String,
    /// Its text.
    pub content: String,
    /// Its mode in octal, as for `chmod`.
    #[serde(default = "readable")]
    pub mode: String,
}

fn readable() -> String {
    "0644".to_owned()
}

/// The status. The condition `Synced` says whether the file is as it should be.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub struct FileStatus {
    #[allow(missing_docs, reason = "flattened: its fields are documented where they are declared")]
    #[serde(flatten)]
    pub base: StandardStatus,
}
