//! PodTemplate: a template for Pods.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::defaults;
use crate::kinds::fill::Fields;
use crate::kinds::printing::{Column, containers, read, selectors};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::validate::pod;
use crate::kinds::warnings::PodTemplate;

/// A template for Pods.
pub(crate) static POD_TEMPLATE: Kind = Kind {
    strategy: PLAIN.counted().returned(),
    defaults: Some(defaults),
    validate: Some(validate),
    pod_template: Some(PodTemplate { path: "template", name_is_used_in: "", is_judged_when_changed: true }),
    columns: &[Column::NAME, Column::text("Containers"), Column::text("Images"), Column::text("Pod Labels")],
    cells: Some(cells),
    ..Kind::namespaced("", "v1", "podtemplates", "PodTemplate")
};

/// A PodTemplate.
fn validate(object: &At<'_>, errors: &mut Errors) {
    pod::template(&object.field("template"), errors);
}

/// A PodTemplate.
fn defaults(object: &mut Fields) {
    defaults::workloads::template(object);
}

fn cells(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "template.spec.containers");
    vec![
        read::name(object).into(),
        names,
        images,
        selectors::labels(object, "template.metadata.labels").into(),
    ]
}
