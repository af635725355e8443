//! Pod: containers that run together on one node.

use crate::kinds::declaration::{CHANGE, CONNECT, CREATE, Kind, PROXY, Part, STATUS};
use crate::kinds::printing::Column;
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::PLAIN;
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, prepare, subresource, validate};
use crate::table::cells;

/// Containers that run together on one node.
pub(crate) static POD: Kind = Kind {
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        Part::with_body("attach", ("", "", "PodAttachOptions"), CONNECT),
        Part::with_body("binding", ("", "", "Binding"), CREATE),
        Part::own("ephemeralcontainers", CHANGE).judged_by(validate::pod::ephemeral_update),
        Part::with_body("eviction", ("policy", "v1", "Eviction"), CREATE),
        Part::with_body("exec", ("", "", "PodExecOptions"), CONNECT),
        Part::own("log", &["get"]),
        Part::with_body("portforward", ("", "", "PodPortForwardOptions"), CONNECT),
        Part::with_body("proxy", ("", "", "PodProxyOptions"), PROXY),
        Part::own("resize", CHANGE).judged_by(validate::pod::resized),
        STATUS,
    ],
    strategy: PLAIN.counted().returned().graceful().with_status(&[
        "spec",
        "metadata.deletionTimestamp",
        "metadata.ownerReferences",
    ]),
    defaults: Some(defaults::pod::pod),
    prepare_create: Some(prepare::pod::created),
    prepare_update: Some(prepare::pod::updated),
    prepare_status: Some(subresource::keep_quality_of_service),
    validate_create: Some(validate::pod::pod_create),
    validate_update: Some(validate::pod::pod_update),
    validate_status: Some(validate::pod_status::check),
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
    cells: Some(cells::pod::pod),
    row_conditions: Some(cells::pod::conditions),
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
