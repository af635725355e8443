//! VolumeAttachment: a request to attach a volume to a node.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::{ALL_BUT_STATUS, PLAIN};
use crate::resource::value_at::{Errors, ValueAt};

const ATTACHMENT_TEXT: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

/// The maximum length of a driver's name.
const DRIVER_BYTES_MAX: usize = 63;

/// A request to attach a volume to a node.
pub(crate) static VOLUME_ATTACHMENT: BuiltInKind = BuiltInKind {
    subresources: &[STATUS],
    old_versions: &["v1beta1"],
    strategy: PLAIN.conditional().returned().with_status(ALL_BUT_STATUS),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[
        Column::NAME,
        Column::names("Attacher"),
        Column::text("PV"),
        Column::text("Node"),
        Column::truth("Attached"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..BuiltInKind::cluster_scoped("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment")
};

/// Validates a VolumeAttachment.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let attacher = spec.field("attacher");
    if attacher.must_be_set(errors) {
        if attacher.text().len() > DRIVER_BYTES_MAX {
            errors.push(Error::too_long(&attacher.path, DRIVER_BYTES_MAX));
        }
        attacher.must_pass(|name| names::subdomain(&name.to_lowercase()), errors);
    }
    let source = spec.field("source");
    let (inline, name) = (source.field("inlineVolumeSpec"), source.field("persistentVolumeName"));
    match (inline.is_set(), name.is_set()) {
        (false, false) => source.required(ATTACHMENT_TEXT, errors),
        (true, true) => source.forbidden(ATTACHMENT_TEXT, errors),
        (false, true) if name.is_zero() => {
            name.required("must specify non empty persistentVolumeName", errors);
        }
        _ => name.must_pass(names::subdomain, errors),
    }
    let node = spec.field("nodeName");
    for error_text in names::subdomain(node.text()) {
        errors.push(Error::invalid(&node.path, &json!(node.text()), &error_text));
    }
}

/// Validates a changed VolumeAttachment: its spec must not change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    new.field("spec").must_stay(&old["spec"], errors);
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.attacher").into(),
        read::string_at(object, "spec.source.persistentVolumeName").into(),
        read::string_at(object, "spec.nodeName").into(),
        read::bool_at(object, "status.attached").into(),
        age::age_of_object(object, now).into(),
    ]
}
