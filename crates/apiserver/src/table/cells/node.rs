//! Nodes and runtime classes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read};

/// `node-role.kubernetes.io/<role>` names a role.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
/// The older label, whose value is the role.
const ROLE: &str = "kubernetes.io/role";

pub(crate) fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    let info =
        |field: &str| read::text_or(object, &format!("status.nodeInfo.{field}"), "<unknown>").to_owned();
    let kernel = match read::text(object, "status.nodeInfo.architecture") {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        read::name(object).into(),
        status(object).into(),
        roles(object).into(),
        age::of(object, now).into(),
        read::text(object, "status.nodeInfo.kubeletVersion").into(),
        address(object, "InternalIP").into(),
        address(object, "ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn status(object: &Value) -> String {
    let ready = match read::condition(object, "Ready") {
        None => "Unknown",
        Some(_) if read::holds(object, "Ready") => "Ready",
        Some(_) => "NotReady",
    };
    let is_closed = read::flag(object, "spec.unschedulable");
    if is_closed { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(object: &Value) -> String {
    let labels = read::map(object, "metadata.labels").into_iter().flatten();
    let roles: BTreeSet<_> = labels
        .filter_map(|(key, value)| {
            if key == ROLE { value.as_str() } else { key.strip_prefix(ROLE_PREFIX) }
                .filter(|role| !role.is_empty())
        })
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { read::joined(roles, ",") }
}

fn address<'a>(object: &'a Value, kind: &str) -> &'a str {
    let addresses = read::list(object, "status.addresses");
    let found = addresses.iter().find(|address| read::text(address, "type") == kind);
    found.map_or("<none>", |address| read::text(address, "address"))
}

pub(crate) fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), read::text(object, "handler").into(), age::of(object, now).into()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_print_like_kubernetes() {
        let object = json!({
            "metadata": {"name": "n1", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "db"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.4", "kernelVersion": "6.1", "architecture": "amd64"}}});
        let printed = json!([
            "n1",
            "NotReady,SchedulingDisabled",
            "db,worker",
            "<unknown>",
            "v1.36.4",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "6.1 (amd64)",
            "<unknown>"
        ]);
        assert_eq!(Value::from(node(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
