//! ReplicaSet: runs a number of Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::apps::deployment;
use crate::kinds::subresource::{SCALE, STATUS};
use crate::kinds::{defaults, validate};
use crate::object::fill::{JsonObject, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age, container_names_and_images, selectors};
use crate::resource::declaration::{BuiltInKind, InitialStatus, PodTemplate};
use crate::resource::strategy::WORKLOAD;
use crate::resource::value_at::{Errors, ValueAt};

/// Runs a number of Pods.
pub(crate) static REPLICA_SET: BuiltInKind = BuiltInKind {
    short_names: &["rs"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    old_versions: &["v1beta2"],
    strategy: WORKLOAD,
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(|| json!({"replicas": 0})),
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
    ..BuiltInKind::namespaced("apps", "v1", "replicasets", "ReplicaSet")
};

/// Validates a ReplicaSet.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate::workload::counts(&spec, errors);
    validate::workload::selected_template(&spec, "deployment", errors);
}

/// Fills in the defaults of a ReplicaSet.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = defaults::workloads::spec_of(object) else { return };
    set_if_absent(spec, "replicas", 1);
    defaults::workloads::default_pod_template(spec);
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = container_names_and_images(object, deployment::CONTAINERS);
    vec![
        read::name(object).into(),
        read::integer_at(object, "spec.replicas").into(),
        read::integer_at(object, "status.replicas").into(),
        read::integer_at(object, "status.readyReplicas").into(),
        age::age_of_object(object, now).into(),
        names,
        images,
        selectors::selector(object, "spec.selector").into(),
    ]
}
