//! PersistentVolumeClaim: a request for storage.

use homeostat_core::quantity::parse_nanos;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::kinds::core::persistent_volume;
use crate::kinds::kind_warnings;
use crate::kinds::subresource::STATUS;
use crate::kinds::validate::selector;
use crate::names;
use crate::object::fill::{JsonObject, is_zero, object_or_insert, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, InitialStatus};
use crate::resource::strategy::{PLAIN, SPEC};
use crate::resource::value_at::{Errors, ValueAt};

const CLAIM_TEXT: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// A request for storage.
pub static PERSISTENT_VOLUME_CLAIM: BuiltInKind = BuiltInKind {
    short_names: &["pvc"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(|| json!({"phase": "Pending"})),
    validate: Some(validate),
    validate_update: Some(validate_update),
    warn: Some(kind_warnings::persistent_volume_claim),
    columns: &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Volume"),
        Column::text("Capacity"),
        Column::text("Access Modes"),
        Column::text("StorageClass"),
        Column::text("VolumeAttributesClass"),
        Column::text("Age"),
        Column::text("VolumeMode").wide(),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
};

/// Validates a PersistentVolumeClaim.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    persistent_volume::access_modes(&spec, errors);
    selector::validate_label_selector(&spec.field("selector"), errors);
    let resources = spec.field("resources");
    let requests = resources.field("requests");
    // The path of the error omits `requests`, as in kube-apiserver.
    let storage = ValueAt { value: requests.field("storage").value, path: resources.path.key("storage") };
    persistent_volume::must_be_more_than_nothing(&storage, errors);
    for name in ["storageClassName", "volumeAttributesClassName"] {
        spec.field(name).must_pass(names::subdomain, errors);
    }
    spec.field("volumeMode").must_be_one_of(&persistent_volume::VOLUME_MODES, errors);
}

/// Validates a changed claim: only the size may grow, and the controller may bind it.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
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
            // The default class may be assigned after the claim was created.
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
        |spec: &Value| parse_nanos(spec["resources"]["requests"]["storage"].as_str().unwrap_or_default());
    if amount(spec.value) < amount(old_spec) && old["status"]["capacity"].is_object() {
        let resources = spec.field("resources");
        let requests = resources.field("requests");
        requests.field("storage").forbidden("field can not be less than status.capacity", errors);
    }
}

/// Fills in the defaults of a PersistentVolumeClaim.
pub(in crate::kinds) fn defaults(object: &mut JsonObject) {
    if let Some(status) = object_or_insert(object, "status") {
        set_if_zero(status, "phase", "Pending");
    }
    let Some(spec) = object_or_insert(object, "spec") else { return };
    set_if_absent(spec, "resources", Map::new());
    set_if_absent(spec, "volumeMode", "Filesystem");
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = read::string_at(object, "spec.volumeName");
    let (capacity, modes) = if volume.is_empty() {
        Default::default()
    } else {
        let capacity = read::scalar_at(object, "status.capacity.storage").unwrap_or_else(|| "0".to_owned());
        (capacity, persistent_volume::printed_access_modes(object, "status.accessModes"))
    };
    vec![
        read::name(object).into(),
        persistent_volume::phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        persistent_volume::class(object).into(),
        read::string_at_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        age::age_of_object(object, now).into(),
        read::string_at_or(object, "spec.volumeMode", "<unset>").into(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_show_their_volume_once_they_have_one() {
        let mut object = json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "fast"},
            "status": {"phase": "Pending", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}});
        let printed = json!(["c", "Pending", "", "", "", "fast", "<unset>", "<unknown>", "<unset>"]);
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), printed);
        object["spec"]["volumeName"] = json!("v");
        let printed = json!(["c", "Pending", "v", "1Gi", "RWO", "fast", "<unset>", "<unknown>", "<unset>"]);
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
