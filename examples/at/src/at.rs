//! The kind At: what people write and what they read.

use homeostat::prelude::*;

/// What to run, and when.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "cnat.programming-kubernetes.info", version = "v1alpha1", kind = "At", namespaced)]
#[kube(status = "AtStatus")]
#[kube(printcolumn = r#"{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}"#)]
#[kube(printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#)]
#[kube(printcolumn = r#"{"name": "Pod", "type": "string", "jsonPath": ".status.pod", "priority": 1}"#)]
#[kube(printcolumn = r#"{"name": "Command", "type": "string", "jsonPath": ".spec.command", "priority": 1}"#)]
#[kube(printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
#[serde(rename_all = "camelCase")]
pub struct AtSpec {
    /// When to run it, as an RFC 3339 time: `2026-07-03T02:00:00Z`.
    pub schedule: String,
    /// The command, run by a shell.
    pub command: String,
}

/// The progress of an At.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Phase {
    /// It waits for its time.
    #[default]
    Pending,
    /// Its time has come, and its Pod has not ended.
    Running,
    /// Its Pod has ended, successfully or not.
    Done,
}

/// The status. The condition `Scheduled` says whether the schedule can be read, `Complete` how the command ended.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct AtStatus {
    /// The progress; absent until the At was first reconciled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The Pod that runs the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[allow(missing_docs, reason = "flattened: its fields are documented where they are declared")]
    #[serde(flatten)]
    pub base: StandardStatus,
}
