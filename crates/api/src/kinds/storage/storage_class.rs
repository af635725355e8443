//! StorageClass: says how storage of a class is provisioned.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::kind_warnings;
use crate::kinds::networking::ingress_class::{annotation, marked};
use crate::names;
use crate::object::fill::{JsonObject, set_if_absent};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// The annotation that marks the default class, in both spellings.
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// Says how storage of a class is provisioned.
pub static STORAGE_CLASS: BuiltInKind = BuiltInKind {
    short_names: &["sc"],
    old_versions: &["v1beta1"],
    strategy: PLAIN.returned(),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate_update),
    warn: Some(kind_warnings::storage_class),
    columns: &[
        Column::NAME,
        Column::text("Provisioner"),
        Column::text("ReclaimPolicy"),
        Column::text("VolumeBindingMode"),
        Column::text("AllowVolumeExpansion"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("storage.k8s.io", "v1", "storageclasses", "StorageClass")
};

/// Validates a StorageClass.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    object.field("provisioner").must_be_named(|name| names::qualified(&name.to_lowercase()), errors);
    object.field("reclaimPolicy").must_be_one_of(&["Delete", "Retain"], errors);
    object.field("volumeBindingMode").must_be_one_of(&["Immediate", "WaitForFirstConsumer"], errors);
}

/// Validates a changed StorageClass.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        new.field(name).must_stay(&old[name], errors);
    }
}

/// Fills in the defaults of a StorageClass.
fn defaults(object: &mut JsonObject) {
    set_if_absent(object, "reclaimPolicy", "Delete");
    set_if_absent(object, "volumeBindingMode", "Immediate");
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = DEFAULT_ANNOTATIONS.iter().any(|name| annotation(object, name) == "true");
    vec![
        marked(read::name(object), is_default).into(),
        read::string_at(object, "provisioner").into(),
        read::string_at_or(object, "reclaimPolicy", "Delete").into(),
        read::string_at_or(object, "volumeBindingMode", "Immediate").into(),
        read::bool_at(object, "allowVolumeExpansion").into(),
        age::age_of_object(object, now).into(),
    ]
}
