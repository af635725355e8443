//! PersistentVolume: a piece of storage.

use homeostat_core::Clock;
use homeostat_core::quantity::parse_nanos;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::kind_warnings;
use crate::kinds::networking::ingress_class::annotation;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::object::fill::{JsonObject, object_mut, object_or_insert, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{BuiltInKind, InitialStatus};
use crate::resource::prepare;
use crate::resource::strategy::{PLAIN, SPEC};
use crate::resource::value_at::{Errors, ValueAt};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(in crate::kinds) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

const RECLAIM_POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];

/// The older annotation that names a class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The older annotation for mount options.
pub(in crate::kinds) const MOUNT_OPTIONS_ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";

/// The sources for which that annotation is allowed.
const MOUNTED_WITH_ANNOTATION: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// The access modes, in the order in which they are printed.
const PRINTED_ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

/// A piece of storage.
pub static PERSISTENT_VOLUME: BuiltInKind = BuiltInKind {
    short_names: &["pv"],
    subresources: &[STATUS],
    strategy: PLAIN.returned().with_status(SPEC),
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(|| json!({"phase": "Pending"})),
    prepare_create: Some(|_, fields, with| {
        volume_created(fields, with.clock);
        Ok(())
    }),
    prepare_status: Some(prepare_status),
    validate: Some(validate),
    validate_update: Some(validate_update),
    warn: Some(kind_warnings::persistent_volume),
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
    ..BuiltInKind::cluster_scoped("", "v1", "persistentvolumes", "PersistentVolume")
};

pub(in crate::kinds) fn access_modes(spec: &ValueAt<'_>, errors: &mut Errors) {
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

pub(in crate::kinds) fn must_be_more_than_nothing(amount: &ValueAt<'_>, errors: &mut Errors) {
    if !amount.is_set() {
        amount.required("", errors);
    } else if parse_nanos(amount.text()).is_some_and(|nanos| nanos <= 0) {
        amount.invalid("must be greater than zero", errors);
    }
}

/// Validates a PersistentVolume.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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
    old_mount_options(object, errors);
}

/// Refuses the older annotation for mount options, except for the sources that always read it.
fn old_mount_options(object: &ValueAt<'_>, errors: &mut Errors) {
    let (spec, metadata) = (object.field("spec"), object.field("metadata"));
    let annotations = metadata.field("annotations");
    let options = annotations.field(MOUNT_OPTIONS_ANNOTATION);
    let is_read = MOUNTED_WITH_ANNOTATION.iter().any(|source| spec.field(source).is_set());
    if options.is_set() && !is_read {
        options.forbidden("may not specify mount options for this volume type", errors);
    }
}

/// Validates a changed volume: its source must not change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
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

/// Fills in the defaults of a PersistentVolume.
fn defaults(object: &mut JsonObject) {
    if let Some(status) = object_or_insert(object, "status") {
        set_if_zero(status, "phase", "Pending");
    }
    let Some(spec) = object_or_insert(object, "spec") else { return };
    set_if_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
    set_if_absent(spec, "volumeMode", "Filesystem");
    if let Some(source) = object_mut(spec, "hostPath") {
        set_if_absent(source, "type", "");
    }
}

/// Records when the phase of a volume last changed.
fn volume_created(volume: &mut JsonObject, clock: &Clock) {
    volume.insert(
        "status".into(),
        json!({"phase": "Pending", "lastPhaseTransitionTime": prepare::kubernetes_now(clock)}),
    );
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = read::value_at(object, "spec.claimRef");
    let claim = claim
        .map(|claim| format!("{}/{}", read::string_at(claim, "namespace"), read::string_at(claim, "name")));
    vec![
        read::name(object).into(),
        read::scalar_at(object, "spec.capacity.storage").unwrap_or_else(|| "0".to_owned()).into(),
        printed_access_modes(object, "spec.accessModes").into(),
        read::string_at(object, "spec.persistentVolumeReclaimPolicy").into(),
        phase(object).into(),
        claim.unwrap_or_default().into(),
        class(object).into(),
        read::string_at_or(object, "spec.volumeAttributesClassName", "<unset>").into(),
        read::string_at(object, "status.reason").into(),
        age::age_of_object(object, now).into(),
        read::string_at_or(object, "spec.volumeMode", "<unset>").into(),
    ]
}

pub(in crate::kinds) fn phase(object: &Value) -> &str {
    if read::is_deleted(object) { "Terminating" } else { read::string_at(object, "status.phase") }
}

pub(in crate::kinds) fn class(object: &Value) -> &str {
    match annotation(object, CLASS_ANNOTATION) {
        "" => read::string_at(object, "spec.storageClassName"),
        class => class,
    }
}

pub(in crate::kinds) fn printed_access_modes(object: &Value, path: &str) -> String {
    let modes = read::list_at(object, path);
    let present = PRINTED_ACCESS_MODES.iter().filter(|(mode, _)| modes.iter().any(|one| one == mode));
    read::joined(present.map(|(_, short)| *short), ",")
}

/// Records when the phase of a volume last changed.
fn prepare_status(fields: &mut JsonObject, stored: &Value, clock: &Clock) {
    const SINCE: &str = "lastPhaseTransitionTime";
    let Some(status) = object_or_insert(fields, "status") else { return };
    let before = &stored["status"];
    let moved =
        status.get("phase").and_then(Value::as_str).unwrap_or_default() != read::string_at(before, "phase");
    let said = status.get(SINCE).filter(|time| !time.is_null());
    if moved && said.is_none_or(|time| time == &before[SINCE]) {
        status.insert(SINCE.into(), prepare::kubernetes_now(clock));
    } else if !moved && said.is_none() && !before[SINCE].is_null() {
        status.insert(SINCE.into(), before[SINCE].clone());
    }
}
