//! PodTemplate: a template for Pods.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::defaults;
use crate::kinds::validate::pod;
use crate::object::fill::JsonObject;
use crate::object::read;
use crate::printing::{Column, container_names_and_images, selectors};
use crate::resource::declaration::{BuiltInKind, PodTemplate};
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// A template for Pods.
pub static POD_TEMPLATE: BuiltInKind = BuiltInKind {
    strategy: PLAIN.counted().returned(),
    defaults: Some(defaults),
    validate: Some(validate),
    pod_template: Some(PodTemplate { path: "template", name_is_used_in: "", is_checked_on_update: true }),
    columns: &[Column::NAME, Column::text("Containers"), Column::text("Images"), Column::text("Pod Labels")],
    cells: Some(cells),
    ..BuiltInKind::namespaced("", "v1", "podtemplates", "PodTemplate")
};

/// Validates a PodTemplate.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    pod::validate_pod_template(&object.field("template"), errors);
}

/// Fills in the defaults of a PodTemplate.
fn defaults(object: &mut JsonObject) {
    defaults::workloads::default_pod_template(object);
}

fn cells(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = container_names_and_images(object, "template.spec.containers");
    vec![
        read::name(object).into(),
        names,
        images,
        selectors::labels(object, "template.metadata.labels").into(),
    ]
}
