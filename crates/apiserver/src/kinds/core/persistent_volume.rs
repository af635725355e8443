//! PersistentVolume: a piece of storage.

use homeostat_core::Clock;
use homeostat_core::quantity::parse_nanos;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::declaration::{FirstStatus, Kind, STATUS};
use crate::kinds::fill::{Fields, at, fill, fill_zero, inner, made, text};
use crate::kinds::networking::ingress_class::annotation;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::{names, prepare};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(in crate::kinds) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// The older way to name a class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// In the order they are printed.
const PRINTED_ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// A piece of storage.
pub(crate) static PERSISTENT_VOLUME: Kind = Kind {
    short_names: &["pv"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(|| json!({"phase": "Pending"})),
    prepare_create: Some(|_, fields, with| {
        volume_created(fields, with.clock);
        Ok(())
    }),
    prepare_status: Some(prepare_status),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: &[
        Column::NAME,
        Column::text("Capacity"),
        Column::text("Access Modes"),
        Column::text("Reclaim Policy"),
        Column::text("Status"),
        Column::text("Claim"),
        Column::text("StorageClass"),
        Column::text("VolumeAttributesClass"),
        Column::text("Reason"),
        Column::text("Age"),
        Column::text("VolumeMode").wide(),
    ],
    cells: Some(cells),
    ..Kind::cluster_scoped("", "v1", "persistentvolumes", "PersistentVolume")
};

pub(in crate::kinds) fn access_modes(spec: &At<'_>, errors: &mut Errors) {
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

pub(in crate::kinds) fn must_be_more_than_nothing(amount: &At<'_>, errors: &mut Errors) {
    if !amount.is_set() {
        amount.required("", errors);
    } else if parse_nanos(amount.text()).is_some_and(|nanos| nanos <= 0) {
        amount.invalid("must be greater than zero", errors);
    }
}

/// A PersistentVolume.
fn validate(object: &At<'_>, errors: &mut Errors) {
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
fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
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

/// A PersistentVolume.
fn defaults(object: &mut Fields) {
    if let Some(status) = made(object, "status") {
        fill_zero(status, "phase", "Pending");
    }
    let Some(spec) = made(object, "spec") else { return };
    fill_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    if let Some(source) = inner(spec, "hostPath") {
        fill(source, "type", "");
    }
}

/// A volume notes when its phase last changed, and is guarded while in use.
fn volume_created(volume: &mut Fields, clock: &Clock) {
    volume
        .insert("status".into(), json!({"phase": "Pending", "lastPhaseTransitionTime": prepare::now(clock)}));
    prepare::add_finalizer(volume, "kubernetes.io/pv-protection");
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = read::at(object, "spec.claimRef");
    let claim =
        claim.map(|claim| format!("{}/{}", read::text(claim, "namespace"), read::text(claim, "name")));
    vec![
        read::name(object).into(),
        read::scalar(object, "spec.capacity.storage").unwrap_or_else(|| "0".to_owned()).into(),
        printed_access_modes(object, "spec.accessModes").into(),
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

pub(in crate::kinds) fn phase(object: &Value) -> &str {
    if read::is_deleted(object) { "Terminating" } else { read::text(object, "status.phase") }
}

pub(in crate::kinds) fn class(object: &Value) -> &str {
    match annotation(object, CLASS_ANNOTATION) {
        "" => read::text(object, "spec.storageClassName"),
        class => class,
    }
}

pub(in crate::kinds) fn printed_access_modes(object: &Value, path: &str) -> String {
    let modes = read::list(object, path);
    let present = PRINTED_ACCESS_MODES.iter().filter(|(mode, _)| modes.iter().any(|one| one == mode));
    read::joined(present.map(|(_, short)| *short), ",")
}

/// A volume notes when its phase last changed.
fn prepare_status(fields: &mut Fields, stored: &Value, clock: &Clock) {
    const SINCE: &str = "lastPhaseTransitionTime";
    let Some(status) = made(fields, "status") else { return };
    let before = at(stored, &["status"]);
    let moved = status.get("phase").and_then(Value::as_str).unwrap_or_default() != text(before, "phase");
    let said = status.get(SINCE).filter(|time| !time.is_null());
    if moved && said.is_none_or(|time| time == at(before, &[SINCE])) {
        status.insert(SINCE.into(), prepare::now(clock));
    } else if !moved && said.is_none() && !at(before, &[SINCE]).is_null() {
        status.insert(SINCE.into(), at(before, &[SINCE]).clone());
    }
}
