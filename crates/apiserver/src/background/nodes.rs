//! Handles Nodes: the taint that keeps Pods away follows the condition of the Node, as in Kubernetes' controller.
//!
//! Admission gives a new Node the taint for Nodes that are not ready. A Node that reports no condition keeps it.

use homeostat_api::kinds::core::node::NODE;
use homeostat_api::status::Status;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::server_changes::update_stored_object;
use crate::write_history::ServerTask;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Reconciles the taints of a Node.
pub(super) async fn reconcile(backend: &Backend, name: &str) -> Result<(), Status> {
    let table = backend.registry.table();
    update_stored_object(
        (backend, ServerTask::Nodes),
        table.built_in(&NODE),
        &NODE.storage().key("", name),
        set_taint,
    )
    .await
}

/// Sets the taint that matches the Node's condition, and removes the other one.
fn set_taint(node: &mut Value) {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    let wanted = match ready.and_then(|condition| condition["status"].as_str()) {
        Some("True") => None,
        Some("False") => Some(NOT_READY),
        Some(_) => Some(UNREACHABLE),
        None => return,
    };
    let before = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let is_ours = |taint: &Value| {
        taint["effect"] == "NoSchedule" && (taint["key"] == NOT_READY || taint["key"] == UNREACHABLE)
    };
    let mut taints =
        before.iter().filter(|taint| !is_ours(taint) || wanted.is_some_and(|key| taint["key"] == key));
    let mut taints = taints.by_ref().cloned().collect::<Vec<_>>();
    if let Some(key) = wanted.filter(|_| !taints.iter().any(is_ours)) {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
    }
    if taints == before {
        return;
    }
    match (taints.is_empty(), node["spec"].as_object_mut()) {
        (true, Some(spec)) => drop(spec.remove("taints")),
        _ => node["spec"]["taints"] = taints.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_taint_follows_the_condition() {
        let check = |status: Option<&str>, keys: &[&str], expected: &[&str]| {
            let taint = |key: &&str| json!({"key": key, "effect": "NoSchedule"});
            let taints = keys.iter().map(taint).collect::<Vec<_>>();
            let conditions = status.map(|status| json!([{"type": "Ready", "status": status}]));
            let mut node = json!({"spec": {"taints": taints}, "status": {"conditions": conditions}});
            set_taint(&mut node);
            let left = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
            assert_eq!(left, expected.iter().map(taint).collect::<Vec<_>>());
        };
        check(None, &[NOT_READY], &[NOT_READY]);
        check(Some("True"), &["own", NOT_READY], &["own"]);
        check(Some("False"), &[NOT_READY], &[NOT_READY]);
        check(Some("Unknown"), &[NOT_READY], &[UNREACHABLE]);
    }
}
