//! PersistentVolumeClaim: a request for storage.

use homeostat_core::quantity::parse_nanos;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::kinds::core::persistent_volume;
use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::fill::{Fields, fill, fill_zero, is_zero, made};
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::validate::selector;
use crate::kinds::{names, prepare};

const CLAIM_TEXT: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// A request for storage.
pub(crate) static PERSISTENT_VOLUME_CLAIM: Kind = Kind {
    short_names: &["pvc"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(|| json!({"phase": "Pending"})),
    prepare_create: Some(|_, fields, _| {
        prepare::add_finalizer(fields, "kubernetes.io/pvc-protection");
        Ok(())
    }),
    validate: Some(validate),
    validate_update: Some(validate_update),
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
    ..Kind::namespaced("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
};

/// A PersistentVolumeClaim.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    persistent_volume::access_modes(&spec, errors);
    selector::check(&spec.field("selector"), errors);
    let resources = spec.field("resources");
    let requests = resources.field("requests");
    // The complaint leaves out `requests`, as the real server's does.
    let storage = At { value: requests.field("storage").value, path: resources.path.key("storage") };
    persistent_volume::must_be_more_than_nothing(&storage, errors);
    for name in ["storageClassName", "volumeAttributesClassName"] {
        spec.field(name).must_pass(names::subdomain, errors);
    }
    spec.field("volumeMode").must_be_one_of(&persistent_volume::VOLUME_MODES, errors);
}

/// A changed claim: only the size may grow, and the controller may bind it.
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
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
        |spec: &Value| parse_nanos(spec["resources"]["requests"]["storage"].as_str().unwrap_or_default());
    if amount(spec.value) < amount(old_spec) && old["status"]["capacity"].is_object() {
        let resources = spec.field("resources");
        let requests = resources.field("requests");
        requests.field("storage").forbidden("field can not be less than status.capacity", errors);
    }
}

/// A PersistentVolumeClaim.
pub(in crate::kinds) fn defaults(object: &mut Fields) {
    if let Some(status) = made(object, "status") {
        fill_zero(status, "phase", "Pending");
    }
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "resources", Map::new());
    fill(spec, "volumeMode", "Filesystem");
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = read::text(object, "spec.volumeName");
    let (capacity, modes) = if volume.is_empty() {
        Default::default()
    } else {
        let capacity = read::scalar(object, "status.capacity.storage").unwrap_or_else(|| "0".to_owned());
        (capacity, persistent_volume::printed_access_modes(object, "status.accessModes"))
    };
    vec![
        read::name(object).into(),
        persistent_volume::phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        persistent_volume::class(object).into(),
        read::text_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        age::of(object, now).into(),
        read::text_or(object, "spec.volumeMode", "<unset>").into(),
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
