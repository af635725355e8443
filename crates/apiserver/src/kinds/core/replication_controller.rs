//! ReplicationController: keeps a number of Pods, in the older form.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::declaration::{FirstStatus, Kind, SCALE, STATUS};
use crate::kinds::fill::{Fields, fill, fill_zero, inner, made};
use crate::kinds::printing::{Column, age, containers, read, selectors};
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::validate::{pod, selector};
use crate::kinds::warnings::PodTemplate;
use crate::kinds::{defaults, validate};

/// Keeps a number of Pods, in the older form.
pub(crate) static REPLICATION_CONTROLLER: Kind = Kind {
    short_names: &["rc"],
    categories: &["all"],
    subresources: &[SCALE, STATUS],
    registry_name: Some("controllers"),
    strategy: WORKLOAD.orphaning(),
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(|| json!({"replicas": 0})),
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
    selectable: Selectable::fields(&[("status.replicas", Absent::Zero)]),
    ..Kind::namespaced("", "v1", "replicationcontrollers", "ReplicationController")
};

/// A ReplicationController: its selector is a plain map of labels.
fn validate(object: &At<'_>, errors: &mut Errors) {
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
    pod::template(&template, errors);
    validate::workload::always_restarts(&template, "replicationcontroller", errors);
}

/// A ReplicationController: selector and labels come from its template.
fn defaults(object: &mut Fields) {
    let Some(spec) = defaults::workloads::spec(object) else { return };
    fill(spec, "replicas", 1);
    if inner(spec, "template").is_some() {
        defaults::workloads::template(spec);
    }
    let Some(labels) = defaults::workloads::template_labels(spec) else { return };
    fill_zero(spec, "selector", labels.clone());
    if let Some(metadata) = made(object, "metadata") {
        fill_zero(metadata, "labels", labels);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "spec.template.spec.containers");
    vec![
        read::name(object).into(),
        read::number(object, "spec.replicas").into(),
        read::number(object, "status.replicas").into(),
        read::number(object, "status.readyReplicas").into(),
        age::of(object, now).into(),
        names,
        images,
        selectors::labels(object, "spec.selector").into(),
    ]
}
