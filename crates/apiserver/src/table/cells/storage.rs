//! Volumes, claims, classes and drivers.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read};
use super::networking::{annotation, marked};

/// The older way to name a class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// Marks the class of claims that name none, in both spellings.
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// In the order they are printed.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

pub(crate) fn persistent_volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = read::at(object, "spec.claimRef");
    let claim =
        claim.map(|claim| format!("{}/{}", read::text(claim, "namespace"), read::text(claim, "name")));
    vec![
        read::name(object).into(),
        read::scalar(object, "spec.capacity.storage").unwrap_or_else(|| "0".to_owned()).into(),
        access_modes(object, "spec.accessModes").into(),
        read::text(object, "spec.persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.unwrap_or_default().into(),
        class(object).into(),
        read::text_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        read::text(object, "status.reason").into(),
        age::of(object, now).into(),
        read::text_or(object, "spec.volumeMode", "<unset>").into(),
    ]
}

pub(crate) fn persistent_volume_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = read::text(object, "spec.volumeName");
    let (capacity, modes) = if volume.is_empty() {
        Default::default()
    } else {
        let capacity = read::scalar(object, "status.capacity.storage").unwrap_or_else(|| "0".to_owned());
        (capacity, access_modes(object, "status.accessModes"))
    };
    vec![
        read::name(object).into(),
        phase(object).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class(object).into(),
        read::text_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        age::of(object, now).into(),
        read::text_or(object, "spec.volumeMode", "<unset>").into(),
    ]
}

fn phase(object: &Value) -> &str {
    if read::is_deleted(object) { "Terminating" } else { read::text(object, "status.phase") }
}

fn class(object: &Value) -> &str {
    match annotation(object, CLASS_ANNOTATION) {
        "" => read::text(object, "spec.storageClassName"),
        class => class,
    }
}

fn access_modes(object: &Value, path: &str) -> String {
    let modes = read::list(object, path);
    let present = ACCESS_MODES.iter().filter(|(mode, _)| modes.iter().any(|one| one == mode));
    read::joined(present.map(|(_, short)| *short), ",")
}

pub(crate) fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
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

pub(crate) fn volume_attributes_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), read::text(object, "driverName").into(), age::of(object, now).into()]
}

pub(crate) fn volume_attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::text(object, "spec.attacher").into(),
        read::text(object, "spec.source.persistentVolumeName").into(),
        read::text(object, "spec.nodeName").into(),
        read::flag(object, "status.attached").into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::list(object, "spec.drivers").len().into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let must_attach = read::at(object, "spec.attachRequired").and_then(Value::as_bool).unwrap_or(true);
    let tokens = read::at(object, "spec.tokenRequests").and_then(Value::as_array).map_or_else(
        || "<unset>".to_owned(),
        |requests| read::joined(requests.iter().map(|request| read::text(request, "audience")), ","),
    );
    let modes = read::texts(object, "spec.volumeLifecycleModes", ",");
    vec![
        read::name(object).into(),
        must_attach.into(),
        read::flag(object, "spec.podInfoOnMount").into(),
        read::flag(object, "spec.storageCapacity").into(),
        tokens.into(),
        read::flag(object, "spec.requiresRepublish").into(),
        if modes.is_empty() { "<none>".to_owned() } else { modes }.into(),
        age::of(object, now).into(),
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
        assert_eq!(Value::from(persistent_volume_claim(&object, Timestamp::UNIX_EPOCH)), printed);
        object["spec"]["volumeName"] = json!("v");
        let printed = json!(["c", "Pending", "v", "1Gi", "RWO", "fast", "<unset>", "<unknown>", "<unset>"]);
        assert_eq!(Value::from(persistent_volume_claim(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
