//! ReplicationController: runs a number of Pods; the predecessor of ReplicaSet.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::subresource::{SCALE, STATUS};
use crate::kinds::validate::{pod, selector};
use crate::kinds::{defaults, validate};
use crate::object::fill::{JsonObject, object_mut, object_or_insert, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age, container_names_and_images, selectors};
use crate::resource::declaration::{BuiltInKind, InitialStatus, PodTemplate};
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::WORKLOAD;
use crate::resource::value_at::{Errors, ValueAt};

/// Runs a number of Pods; the predecessor of ReplicaSet.
pub static REPLICATION_CONTROLLER: BuiltInKind = BuiltInKind {
    short_names: &["rc"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    registry_name: Some("controllers"),
    strategy: WORKLOAD.orphaning(),
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(|| json!({"replicas": 0})),
    validate: Some(validate),
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
    selectable: SelectableFields::fields(&[("status.replicas", AbsentValue::Zero)]),
    ..BuiltInKind::namespaced("", "v1", "replicationcontrollers", "ReplicationController")
};

/// Validates a ReplicationController: its selector is a plain map of labels.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate::workload::counts(&spec, errors);
    let selector = spec.field("selector");
    selector.must_be_set(errors);
    let template = spec.field("template");
    if !template.is_set() {
        template.required("", errors);
        return;
    }
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    if !selector::matches(&json!({"matchLabels": selector.value}), labels.value) {
        labels.invalid(validate::workload::MISMATCH, errors);
    }
    pod::validate_pod_template(&template, errors);
    validate::workload::always_restarts(&template, "replicationcontroller", errors);
}

/// Fills in the defaults of a ReplicationController: selector and labels come from its template.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = defaults::workloads::spec_of(object) else { return };
    set_if_absent(spec, "replicas", 1);
    if object_mut(spec, "template").is_some() {
        defaults::workloads::default_pod_template(spec);
    }
    let Some(labels) = defaults::workloads::template_labels(spec) else { return };
    set_if_zero(spec, "selector", labels.clone());
    if let Some(metadata) = object_or_insert(object, "metadata") {
        set_if_zero(metadata, "labels", labels);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = container_names_and_images(object, "spec.template.spec.containers");
    vec![
        read::name(object).into(),
        read::integer_at(object, "spec.replicas").into(),
        read::integer_at(object, "status.replicas").into(),
        read::integer_at(object, "status.readyReplicas").into(),
        age::age_of_object(object, now).into(),
        names,
        images,
        selectors::labels(object, "spec.selector").into(),
    ]
}
