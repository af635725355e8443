//! PersistentVolumes, their claims, classes and attachments.

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::selector;
use crate::field::Error;
use crate::kinds::fill::is_zero;
use crate::kinds::{names, quantity};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
const ATTACHMENT_TEXT: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
/// The longest name of a driver.
const DRIVER_BYTES_MAX: usize = 63;
const CLAIM_TEXT: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

fn access_modes(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.len() == 0 {
        let detail = "at least 1 access mode is required";
        modes.required(detail, errors);
    }
    for mode in modes.items().filter(|mode| !ACCESS_MODES.contains(&mode.text())) {
        errors.push(Error::not_supported(&modes.path, mode.value, &ACCESS_MODES));
    }
    if modes.len() > 1 && modes.items().any(|mode| mode.text() == "ReadWriteOncePod") {
        modes.forbidden("may not use ReadWriteOncePod with other access modes", errors);
    }
}

fn must_be_more_than_nothing(amount: &At<'_>, errors: &mut Errors) {
    if !amount.is_set() {
        amount.required("", errors);
    } else if quantity::parse(amount.text()).is_some_and(|nanos| nanos <= 0) {
        amount.invalid("must be greater than zero", errors);
    }
}

/// A PersistentVolumeClaim.
pub(in crate::kinds) fn claim(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    access_modes(&spec, errors);
    selector::check(&spec.field("selector"), errors);
    let resources = spec.field("resources");
    let requests = resources.field("requests");
    // The complaint leaves out `requests`, as the real server's does.
    let storage = At { value: requests.field("storage").value, path: resources.path.key("storage") };
    must_be_more_than_nothing(&storage, errors);
    for name in ["storageClassName", "volumeAttributesClassName"] {
        spec.field(name).must_pass(names::subdomain, errors);
    }
    spec.field("volumeMode").must_be_one_of(&VOLUME_MODES, errors);
}

/// A changed claim: only the size may grow, and the controller may bind it.
pub(in crate::kinds) fn claim_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let spec = new.field("spec");
    let old_spec = &old["spec"];
    let is_bound = old["status"]["phase"] == "Bound";
    let was_open = is_zero(old_spec.get("volumeName"));
    let had_class = !old_spec["storageClassName"].is_null();
    let fixed = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        let fixed = fields.filter(|(name, value)| match name.as_str() {
            "resources" | "volumeAttributesClassName" => !is_bound,
            "volumeName" => !was_open,
            // The default class may come later than the claim.
            "storageClassName" => had_class,
            _ => !is_zero(Some(value)),
        });
        fixed.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if fixed(spec.value) != fixed(old_spec) {
        spec.forbidden(CLAIM_TEXT, errors);
        return;
    }
    let amount =
        |spec: &Value| quantity::parse(spec["resources"]["requests"]["storage"].as_str().unwrap_or_default());
    if amount(spec.value) < amount(old_spec) && old["status"]["capacity"].is_object() {
        let resources = spec.field("resources");
        let requests = resources.field("requests");
        requests.field("storage").forbidden("field can not be less than status.capacity", errors);
    }
}

/// A PersistentVolume.
pub(in crate::kinds) fn volume(object: &At<'_>, errors: &mut Errors) {
    const OTHER_FIELDS: [&str; 9] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeMode",
        "volumeAttributesClassName",
    ];
    let spec = object.field("spec");
    access_modes(&spec, errors);
    let capacity = spec.field("capacity");
    if capacity.len() == 0 {
        capacity.required("", errors);
    } else {
        must_be_more_than_nothing(&capacity.key("storage"), errors);
    }
    spec.field("persistentVolumeReclaimPolicy").must_be_one_of(&RECLAIM_POLICIES, errors);
    spec.field("volumeMode").must_be_one_of(&VOLUME_MODES, errors);
    spec.field("storageClassName").must_pass(names::subdomain, errors);
    let fields = spec.value.as_object().into_iter().flatten();
    let sources =
        fields.filter(|(name, value)| !value.is_null() && !OTHER_FIELDS.contains(&name.as_str())).count();
    if sources == 0 {
        spec.required("must specify a volume type", errors);
    }
}

/// A changed volume: where the data is stays.
pub(in crate::kinds) fn volume_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    const FREE: [&str; 8] = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
    ];
    let spec = new.field("spec");
    spec.field("volumeMode").must_stay(&old["spec"]["volumeMode"], errors);
    let source = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        let source = fields.filter(|(name, value)| {
            !FREE.contains(&name.as_str()) && *name != "volumeMode" && !value.is_null()
        });
        source.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if source(spec.value) != source(&old["spec"]) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(Error::forbidden(&spec.field("persistentvolumesource").path, detail));
    }
}

/// A StorageClass.
pub(in crate::kinds) fn class(object: &At<'_>, errors: &mut Errors) {
    object.field("provisioner").must_be_named(|name| names::qualified(&name.to_lowercase()), errors);
    object.field("reclaimPolicy").must_be_one_of(&["Delete", "Retain"], errors);
    object.field("volumeBindingMode").must_be_one_of(&["Immediate", "WaitForFirstConsumer"], errors);
}

/// A changed StorageClass.
pub(in crate::kinds) fn class_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        new.field(name).must_stay(&old[name], errors);
    }
}

/// A VolumeAttachment.
pub(in crate::kinds) fn attachment(object: &At<'_>, errors: &mut Errors) {
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
    for complaint in names::subdomain(node.text()) {
        errors.push(Error::invalid(&node.path, &json!(node.text()), &complaint));
    }
}

/// A changed VolumeAttachment: what is attached where stays.
pub(in crate::kinds) fn attachment_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("spec").must_stay(&old["spec"], errors);
}
