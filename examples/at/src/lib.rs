//! The At operator: run a command at a time.
//!
//! An `At` names a schedule and a command. It is PENDING until the time has come, RUNNING while its Pod runs and DONE when
//! the Pod has ended.

use homeostat::prelude::*;

/// What to run, and when.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "cnat.programming-kubernetes.info", version = "v1alpha1", kind = "At", namespaced)]
#[serde(rename_all = "camelCase")]
pub struct AtSpec {
    /// The moment, as an RFC 3339 time in UTC: `2026-07-03T02:00:00Z`.
    pub schedule: String,
    /// The command, run by a shell.
    pub command: String,
}
