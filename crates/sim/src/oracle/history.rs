//! Recognizes the former templates that workloads keep for a rollback. Which ones exist depends on how fast the user
//! edited, so two ends may differ in them.

use crate::state::CanonicalState;

/// Fields that count or name revisions.
const FIELDS: [&str; 3] = [
    "metadata.annotations.deployment.kubernetes.io/",
    "metadata.annotations.deprecated.daemonset.template.generation",
    "status.collisionCount",
];

/// Returns whether a difference from the expected state concerns former templates only.
pub(super) fn is_history(expected: &CanonicalState, object: &str, text: &str) -> bool {
    let is_field = FIELDS.iter().any(|field| text.starts_with(field));
    is_field || object.starts_with("controllerrevisions.apps ") || is_former_set(expected, object)
}

/// Returns whether the object is a ReplicaSet that a Deployment keeps without Pods.
fn is_former_set(expected: &CanonicalState, object: &str) -> bool {
    let Some(set) = expected.get(object) else { return false };
    let owner = &set["metadata"]["ownerReferences"][0]["kind"];
    object.starts_with("replicasets.apps ") && *owner == "Deployment" && set["spec"]["replicas"] == 0
}
