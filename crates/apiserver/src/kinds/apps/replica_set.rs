//! ReplicaSet: keeps a number of Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::apps::deployment;
use crate::kinds::declaration::{FirstStatus, Kind, SCALE, STATUS};
use crate::kinds::fill::{Fields, fill};
use crate::kinds::printing::{Column, age, containers, read, selectors};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};

/// Keeps a number of Pods.
pub(crate) static REPLICA_SET: Kind = Kind {
    short_names: &["rs"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(|| json!({"replicas": 0})),
    validate: Some(validate),
    validate_update: Some(validate::workload::selector_stays),
    validate_status: Some(validate::counts::replica_set),
    pod_template: Some(PodTemplate::OF_WORKLOAD),
    columns: &[
        Column::NAME,
        Column::number("Desired"),
        Column::number("Current"),
        Column::number("Ready"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells),
    ..Kind::namespaced("apps", "v1", "replicasets", "ReplicaSet")
};

/// A ReplicaSet.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate::workload::counts(&spec, errors);
    validate::workload::selected_template(&spec, "deployment", errors);
}

/// A ReplicaSet.
fn defaults(object: &mut Fields) {
    let Some(spec) = defaults::workloads::spec(object) else { return };
    fill(spec, "replicas", 1);
    defaults::workloads::template(spec);
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, deployment::CONTAINERS);
    vec![
        read::name(object).into(),
        read::number(object, "spec.replicas").into(),
        read::number(object, "status.replicas").into(),
        read::number(object, "status.readyReplicas").into(),
        age::of(object, now).into(),
        names,
        images,
        selectors::selector(object, "spec.selector").into(),
    ]
}
