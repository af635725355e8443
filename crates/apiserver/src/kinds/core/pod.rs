//! Pod: containers that run together on one node.

pub(in crate::kinds) mod preparation;
pub(in crate::kinds) mod printing;
pub(in crate::kinds) mod status;
pub(in crate::kinds) mod validation;

use serde_json::{Value, json};

use crate::kinds::declaration::{CHANGE, CONNECT, CREATE, Kind, PROXY, Part, STATUS};
use crate::kinds::defaults;
use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, made};
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::PLAIN;
use crate::kinds::subresource;
use crate::kinds::warnings::PodTemplate;

/// Containers that run together on one node.
pub(crate) static POD: Kind = Kind {
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        Part::with_body("attach", ("", "", "PodAttachOptions"), CONNECT),
        Part::with_body("binding", ("", "", "Binding"), CREATE),
        Part::own("ephemeralcontainers", CHANGE)
            .merged_by(|_, stored, body, _| subresource::ephemeral_containers(stored, &body))
            .changing_content()
            .judged_by(validation::ephemeral_update),
        Part::with_body("eviction", ("policy", "v1", "Eviction"), CREATE),
        Part::with_body("exec", ("", "", "PodExecOptions"), CONNECT),
        Part::own("log", &["get"]),
        Part::with_body("portforward", ("", "", "PodPortForwardOptions"), CONNECT),
        Part::with_body("proxy", ("", "", "PodProxyOptions"), PROXY),
        Part::own("resize", CHANGE)
            .merged_by(|_, stored, body, _| subresource::resize(stored, &body))
            .changing_content()
            .judged_by(validation::resized),
        STATUS,
    ],
    strategy: PLAIN.counted().returned().graceful().with_status(&[
        "spec",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
    ]),
    defaults: Some(defaults),
    prepare_create: Some(preparation::prepare_create),
    prepare_update: Some(preparation::prepare_update),
    prepare_status: Some(preparation::prepare_status),
    validate_create: Some(validation::validate_create),
    validate_update: Some(validation::validate_update),
    validate_status: Some(status::validate_status),
    pod_template: Some(PodTemplate {
        path: "",
        name_is_used_in: "the Pod's hostname",
        is_judged_when_changed: false,
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
    selectable: Selectable {
        alias: Some(|name| Some(if name == "spec.host" { "spec.nodeName" } else { name }.into())),
        ..Selectable::fields(&[
            ("spec.nodeName", Absent::Empty),
            ("spec.restartPolicy", Absent::Empty),
            ("spec.schedulerName", Absent::Empty),
            ("spec.serviceAccountName", Absent::Empty),
            ("spec.hostNetwork", Absent::False),
            ("status.phase", Absent::Empty),
            ("status.podIP", Absent::Empty),
            ("status.podIPs", Absent::Empty),
            ("status.nominatedNodeName", Absent::Empty),
        ])
    },
    ..Kind::namespaced("", "v1", "pods", "Pod")
};

/// A Pod.
fn defaults(object: &mut Fields) {
    if let Some(status) = inner(object, "status") {
        pod_addresses(status);
    }
    let Some(spec) = made(object, "spec") else { return };
    defaults::pod::pod_spec(spec);
    fill(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".into(), 1.into());
    }
    let on_host = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in defaults::pod::CONTAINER_LISTS {
        for container in each(spec, list) {
            requests_from_limits(container);
            if on_host {
                host_ports(container);
            }
        }
    }
}

/// `podIP` and the first of `podIPs` are one fact in two fields; the singular one wins.
fn pod_addresses(status: &mut Fields) {
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

fn requests_from_limits(container: &mut Fields) {
    let Some(resources) = inner(container, "resources") else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let Some(requests) = made(resources, "requests") else { return };
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
}

fn host_ports(container: &mut Fields) {
    for port in each(container, "ports") {
        if let Some(number) = port.get("containerPort").cloned() {
            fill_zero(port, "hostPort", number);
        }
    }
}
