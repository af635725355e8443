//! Node: a machine that runs Pods.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field;
use crate::field::Error;
use crate::kinds::subresource::STATUS;
use crate::kinds::validate::network_range;
use crate::names;
use crate::object::fill::{JsonObject, is_zero, object_mut, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, InitialStatus, PROXY, SubresourceDeclaration};
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::{PLAIN, SPEC};
use crate::resource::value_at::{Errors, ValueAt};

/// `node-role.kubernetes.io/<role>` names a role.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";

/// The older label, whose value is the role.
const ROLE: &str = "kubernetes.io/role";

/// A machine that runs Pods.
pub static NODE: BuiltInKind = BuiltInKind {
    short_names: &["no"],
    subresources: &[SubresourceDeclaration::with_body("proxy", ("", "", "NodeProxyOptions"), PROXY), STATUS],
    registry_name: Some("minions"),
    strategy: PLAIN.with_status(SPEC),
    defaults: Some(defaults),
    first_status: InitialStatus::AsSent,
    validate: Some(validate),
    validate_update: Some(validate_update),
    validate_status: Some(validate_update),
    warn: Some(warn),
    columns: &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Roles"),
        Column::text("Age"),
        Column::text("Version"),
        Column::text("Internal-IP").wide(),
        Column::text("External-IP").wide(),
        Column::text("OS-Image").wide(),
        Column::text("Kernel-Version").wide(),
        Column::text("Container-Runtime").wide(),
    ],
    cells: Some(cells),
    selectable: SelectableFields::fields(&[("spec.unschedulable", AbsentValue::False)]).without_namespace(),
    ..BuiltInKind::cluster_scoped("", "v1", "nodes", "Node")
};

/// Validates a Node's taints and Pod address ranges.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let mut seen = BTreeSet::new();
    for taint in spec.field("taints").items() {
        taint.field("key").must_be_named(names::qualified, errors);
        taint.field("value").must_pass(names::label_value, errors);
        let effect = taint.field("effect");
        if effect.must_be_set(errors) {
            effect.must_be_one_of(&["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        }
        if !seen.insert((taint.field("key").text().to_owned(), effect.text().to_owned())) {
            taint.duplicate(errors);
        }
    }
    let ranges = spec.field("podCIDRs");
    for range in ranges.items() {
        network_range::check(&range, range.text(), errors);
    }
    let families = ranges.items().map(|range| range.text().contains(':')).collect::<BTreeSet<_>>();
    if families.len() < ranges.len() {
        ranges.invalid("may specify no more than one CIDR for each IP family", errors);
    }
}

/// Returns warnings about ranges that are not spelled in the canonical way.
fn warn(node: &Value, _: Option<&Value>) -> Vec<String> {
    let ranges = read::list_at(&node["spec"], "podCIDRs").iter().enumerate();
    let warning = |(at, range): (usize, &Value)| {
        network_range::spelling_warning(&format!("spec.podCIDRs[{at}]"), range.as_str().unwrap_or_default())
    };
    ranges.filter_map(warning).collect()
}

/// Validates a changed Node, through any endpoint: no duplicate addresses, and assigned values must not change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let (status, spec) = (new.field("status"), new.field("spec"));
    let mut seen = BTreeSet::new();
    for address in status.field("addresses").items() {
        let (kind, text) =
            (address.field("type").text().to_owned(), address.field("address").text().to_owned());
        // kube-apiserver prints the fields by their Go names, and in its own order.
        let body = format!("Duplicate value: {{\"Type\":{kind:?},\"Address\":{text:?}}}");
        if !seen.insert((kind, text)) {
            errors.push(Error { kind: field::ErrorType::Duplicate, field: address.path.to_string(), body });
        }
    }
    for (name, said) in [("podCIDRs", "podCIDR"), ("providerID", "providerID")] {
        let before = &old["spec"][name];
        if !is_zero(Some(before)) && spec.field(name).value != before {
            let detail = format!("node updates may not change {said} except from \"\" to valid");
            spec.field(name).forbidden(&detail, errors);
        }
    }
}

/// Fills in the defaults of a Node: all of its capacity is allocatable unless specified otherwise.
fn defaults(object: &mut JsonObject) {
    if let Some(spec) = object_mut(object, "spec") {
        pod_ranges(spec);
    }
    let Some(status) = object_mut(object, "status") else { return };
    if let Some(capacity) = status.get("capacity").filter(|capacity| !capacity.is_null()).cloned() {
        set_if_absent(status, "allocatable", capacity);
    }
}

/// Synchronizes `podCIDR` and the first of `podCIDRs`, which hold the same fact.
fn pod_ranges(spec: &mut JsonObject) {
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)).cloned();
    match (spec.get("podCIDR").filter(|range| !is_zero(Some(range))).cloned(), first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            spec.insert("podCIDRs".into(), json!([single]));
        }
        (None, Some(first)) => {
            spec.insert("podCIDR".into(), first);
        }
        _ => {}
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let info =
        |field: &str| read::string_at_or(object, &format!("status.nodeInfo.{field}"), "<unknown>").to_owned();
    let kernel = match read::string_at(object, "status.nodeInfo.architecture") {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        read::name(object).into(),
        status(object).into(),
        roles(object).into(),
        age::age_of_object(object, now).into(),
        read::string_at(object, "status.nodeInfo.kubeletVersion").into(),
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
        Some(_) if read::has_true_condition(object, "Ready") => "Ready",
        Some(_) => "NotReady",
    };
    let is_closed = read::bool_at(object, "spec.unschedulable");
    if is_closed { format!("{ready},SchedulingDisabled") } else { ready.to_owned() }
}

fn roles(object: &Value) -> String {
    let labels = read::object_at(object, "metadata.labels").into_iter().flatten();
    let roles: BTreeSet<_> = labels
        .filter_map(|(key, value)| {
            if key == ROLE { value.as_str() } else { key.strip_prefix(ROLE_PREFIX) }
                .filter(|role| !role.is_empty())
        })
        .collect();
    if roles.is_empty() { "<none>".to_owned() } else { read::joined(roles, ",") }
}

fn address<'a>(object: &'a Value, kind: &str) -> &'a str {
    let addresses = read::list_at(object, "status.addresses");
    let found = addresses.iter().find(|address| read::string_at(address, "type") == kind);
    found.map_or("<none>", |address| read::string_at(address, "address"))
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
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
