//! StorageClass: how storage of a class is made.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::declaration::Kind;
use crate::kinds::fill::{Fields, fill};
use crate::kinds::names;
use crate::kinds::networking::ingress_class::{annotation, marked};
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};

/// Marks the class of claims that name none, in both spellings.
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// How storage of a class is made.
pub(crate) static STORAGE_CLASS: Kind = Kind {
    short_names: &["sc"],
    old_versions: &["v1beta1"],
    strategy: PLAIN.returned(),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[
        Column::NAME,
        Column::text("Provisioner"),
        Column::text("ReclaimPolicy"),
        Column::text("VolumeBindingMode"),
        Column::text("AllowVolumeExpansion"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..Kind::cluster_scoped("storage.k8s.io", "v1", "storageclasses", "StorageClass")
};

/// A StorageClass.
fn validate(object: &At<'_>, errors: &mut Errors) {
    object.field("provisioner").must_be_named(|name| names::qualified(&name.to_lowercase()), errors);
    object.field("reclaimPolicy").must_be_one_of(&["Delete", "Retain"], errors);
    object.field("volumeBindingMode").must_be_one_of(&["Immediate", "WaitForFirstConsumer"], errors);
}

/// A changed StorageClass.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        new.field(name).must_stay(&old[name], errors);
    }
}

/// A StorageClass.
fn defaults(object: &mut Fields) {
    fill(object, "reclaimPolicy", "Delete");
    fill(object, "volumeBindingMode", "Immediate");
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = DEFAULT_ANNOTATIONS.iter().any(|name| annotation(object, name) == "true");
    vec![
        marked(read::name(object), is_default).into(),
        read::text(object, "provisioner").into(),
        read::text_or(object, "reclaimPolicy", "Delete").into(),
        read::text_or(object, "volumeBindingMode", "Immediate").into(),
        read::flag(object, "allowVolumeExpansion").into(),
        age::of(object, now).into(),
    ]
}
