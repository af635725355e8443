//! Pod: containers that run together on one node.

pub(in crate::kinds) mod preparation;
pub(in crate::kinds) mod printing;
pub(in crate::kinds) mod status;
pub(in crate::kinds) mod validation;

use serde_json::{Value, json};

use crate::kinds::defaults;
use crate::kinds::subresource;
use crate::kinds::subresource::STATUS;
use crate::object::fill::{
    JsonObject, object_mut, object_or_insert, objects_mut, set_if_absent, set_if_zero,
};
use crate::printing::Column;
use crate::resource::declaration::{
    BuiltInKind, CHANGE, CONNECT, CREATE, PROXY, PodTemplate, SubresourceDeclaration,
};
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::PLAIN;

/// Containers that run together on one node.
pub static POD: BuiltInKind = BuiltInKind {
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        SubresourceDeclaration::with_body("attach", ("", "", "PodAttachOptions"), CONNECT),
        SubresourceDeclaration::with_body("binding", ("", "", "Binding"), CREATE),
        SubresourceDeclaration::own("ephemeralcontainers", CHANGE)
            .merged_by(|_, stored, body, _| subresource::ephemeral_containers(stored, &body))
            .changing_content()
            .validated_by(validation::ephemeral_update),
        SubresourceDeclaration::with_body("eviction", ("policy", "v1", "Eviction"), CREATE),
        SubresourceDeclaration::with_body("exec", ("", "", "PodExecOptions"), CONNECT),
        SubresourceDeclaration::own("log", &["get"]),
        SubresourceDeclaration::with_body("portforward", ("", "", "PodPortForwardOptions"), CONNECT),
        SubresourceDeclaration::with_body("proxy", ("", "", "PodProxyOptions"), PROXY),
        SubresourceDeclaration::own("resize", CHANGE)
            .merged_by(|_, stored, body, _| subresource::resize(stored, &body))
            .changing_content()
            .validated_by(validation::resized),
        STATUS,
    ],
    strategy: PLAIN.counted().returned().graceful().with_status(&[
        "spec",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
    ]),
    defaults: Some(defaults),
    prepare_create: Some(|_, fields, _| {
        preparation::prepare_create(fields);
        Ok(())
    }),
    prepare_status: Some(preparation::prepare_status),
    validate_create: Some(validation::validate_create),
    validate_update: Some(validation::validate_update),
    validate_status: Some(status::validate_status),
    pod_template: Some(PodTemplate {
        path: "",
        name_is_used_in: "the Pod's hostname",
        is_checked_on_update: false,
    }),
    columns: &[
        Column::NAME,
        Column::text("Ready"),
        Column::text("Status"),
        Column::text("Restarts"),
        Column::text("Age"),
        Column::text("IP").wide(),
        Column::text("Node").wide(),
        Column::text("Nominated Node").wide(),
        Column::text("Readiness Gates").wide(),
    ],
    cells: Some(printing::cells),
    row_conditions: Some(printing::row_conditions),
    selectable: SelectableFields {
        alias: Some(|name| Some(if name == "spec.host" { "spec.nodeName" } else { name }.into())),
        ..SelectableFields::fields(&[
            ("spec.nodeName", AbsentValue::Empty),
            ("spec.restartPolicy", AbsentValue::Empty),
            ("spec.schedulerName", AbsentValue::Empty),
            ("spec.serviceAccountName", AbsentValue::Empty),
            ("spec.hostNetwork", AbsentValue::False),
            ("status.phase", AbsentValue::Empty),
            ("status.podIP", AbsentValue::Empty),
            ("status.podIPs", AbsentValue::Empty),
            ("status.nominatedNodeName", AbsentValue::Empty),
        ])
    },
    ..BuiltInKind::namespaced("", "v1", "pods", "Pod")
};

/// Fills in the defaults of a Pod.
fn defaults(object: &mut JsonObject) {
    if let Some(status) = object_mut(object, "status") {
        pod_addresses(status);
    }
    let Some(spec) = object_or_insert(object, "spec") else { return };
    defaults::pod::pod_spec(spec);
    set_if_absent(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in defaults::pod::CONTAINER_LISTS {
        for container in objects_mut(spec, list) {
            requests_from_limits(container);
            if on_host {
                host_ports(container);
            }
        }
    }
}

/// Synchronizes `podIP` and the first of `podIPs`, which hold the same fact; the singular field wins.
fn pod_addresses(status: &mut JsonObject) {
    let single = status.get("podIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = status.get("podIPs").and_then(|list| list.get(0)).and_then(|one| one.get("ip")).cloned();
    match (single.is_empty(), first) {
        (true, Some(first)) => {
            status.insert("podIP".into(), first);
        }
        (false, first) if first.as_ref().and_then(Value::as_str) != Some(&single) => {
            status.insert("podIPs".into(), json!([{"ip": single}]));
        }
        _ => {}
    }
}

fn requests_from_limits(container: &mut JsonObject) {
    let Some(resources) = object_mut(container, "resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let Some(requests) = object_or_insert(resources, "requests") else { return };
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

fn host_ports(container: &mut JsonObject) {
    for port in objects_mut(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned() {
            set_if_zero(port, "hostPort", number);
        }
    }
}
