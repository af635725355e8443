//! TaintNodesByCondition: keeps Pods off a new Node until it is known to be ready.
//!
//! The background task for Nodes removes the taint, as Kubernetes' controller does.

use homeostat_api::kinds::core::node::NODE;
use serde_json::{Value, json};

use super::plugin::{Mutate, Plugin};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Fill(admit),
    ..Plugin::new("TaintNodesByCondition", |resource| is_kind(resource, &NODE))
};

fn admit(request: &AdmissionRequest<'_>, node: &mut Value) {
    if request.is_of(&NODE) && request.operation == Operation::Create {
        add_not_ready_taint(node);
    }
}

fn add_not_ready_taint(node: &mut Value) {
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    match &mut node["spec"]["taints"] {
        Value::Array(taints) => {
            let is_same = |one: &Value| one["key"] == taint["key"] && one["effect"] == taint["effect"];
            if !taints.iter().any(is_same) {
                taints.push(taint);
            }
        }
        other => *other = json!([taint]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_taint_is_added_once() {
        let mut node = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
        add_not_ready_taint(&mut node);
        add_not_ready_taint(&mut node);
        let keys = node["spec"]["taints"].as_array().expect("a list").iter();
        let keys = keys.map(|taint| taint["key"].clone()).collect::<Vec<_>>();
        assert_eq!(keys, ["a", "node.kubernetes.io/not-ready"]);
    }
}
