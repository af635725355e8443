//! Validates Pod volumes: each has a name and one source, and the source has its required fields.
//!
//! The details of most sources (cloud disks, network storage) are deliberately not validated.

use std::collections::BTreeSet;

use serde_json::Value;

use super::downward;
use crate::field::Error;
use crate::names;
use crate::resource::value_at::{Errors, ValueAt};

/// The sources of a volume. Their order decides which of two sources is reported as redundant.
const VOLUME_SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// The shortest and the longest lifetime of a token.
const TOKEN_S_MIN: i64 = 600;
const TOKEN_S_MAX: i64 = 1 << 32;

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates the volumes and returns the names of the valid ones.
pub(in crate::kinds) fn all<'a>(list: &ValueAt<'a>, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut good = BTreeSet::new();
    let values = list.value.as_array().map(Vec::as_slice).unwrap_or_default();
    for (value, volume) in values.iter().zip(list.items()) {
        let before = errors.len();
        let name = volume.field("name");
        name.must_be_named(names::label, errors);
        if good.contains(name.text()) {
            name.duplicate(errors);
        }
        validate_source(&volume, errors);
        if errors.len() == before {
            good.insert(value.get("name").and_then(Value::as_str).unwrap_or_default());
        }
    }
    good
}

/// Validates that there is one source, with its required fields.
fn validate_source(volume: &ValueAt<'_>, errors: &mut Errors) {
    const NEEDS: [(&str, &[&str]); 9] = [
        ("hostPath", &["path"]),
        ("secret", &["secretName"]),
        ("configMap", &["name"]),
        ("persistentVolumeClaim", &["claimName"]),
        ("nfs", &["server", "path"]),
        ("csi", &["driver"]),
        ("iscsi", &["targetPortal", "iqn"]),
        ("rbd", &["monitors", "image"]),
        ("gitRepo", &["repository"]),
    ];
    let sources: Vec<ValueAt<'_>> =
        VOLUME_SOURCES.iter().map(|name| volume.field(name)).filter(ValueAt::is_set).collect();
    if sources.is_empty() {
        volume.required("must specify a volume type", errors);
    }
    for source in sources.iter().skip(1) {
        source.forbidden("may not specify more than 1 volume type", errors);
    }
    for (source, needs) in NEEDS {
        let source = volume.field(source);
        for need in needs.iter().filter(|_| source.is_set()) {
            source.field(need).must_be_set(errors);
        }
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        check_mode(&volume.field(source).field("defaultMode"), errors);
    }
    host_path(&volume.field("hostPath"), errors);
    key_files(volume, errors);
    downward::files(&volume.field("downwardAPI"), errors);
    let projected = volume.field("projected");
    let mut files = BTreeSet::new();
    for source in projected.field("sources").items() {
        same_files(&source, &projected, &mut files, errors);
        key_files(&source, errors);
        downward::files(&source.field("downwardAPI"), errors);
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            check_token(&token, &projected, errors);
        }
    }
    let ephemeral = volume.field("ephemeral");
    if ephemeral.is_set() && !ephemeral.field("volumeClaimTemplate").is_set() {
        ephemeral.field("volumeClaimTemplate").required("", errors);
    }
}

/// Rejects two sources in a volume that create the same file. The error is reported at the volume, with the name of the
/// source.
fn same_files(
    source: &ValueAt<'_>,
    projected: &ValueAt<'_>,
    files: &mut BTreeSet<String>,
    errors: &mut Errors,
) {
    for kind in ["secret", "configMap", "downwardAPI"] {
        let source = source.field(kind);
        for item in source.field("items").items() {
            let path = item.field("path");
            if path.text().is_empty() || files.insert(path.text().to_owned()) {
                continue;
            }
            let shown = if kind == "downwardAPI" { path.text() } else { source.field("name").text() };
            errors.push(Error::invalid(&projected.path, &shown.into(), "conflicting duplicate paths"));
        }
    }
}

/// Validates the keys of a Secret or ConfigMap that become files.
fn key_files(volume: &ValueAt<'_>, errors: &mut Errors) {
    for source in ["secret", "configMap"].map(|name| volume.field(name)) {
        for item in source.field("items").items() {
            let (key, path, mode) = (item.field("key"), item.field("path"), item.field("mode"));
            key.must_be_set(errors);
            path.must_be_set(errors);
            path.must_be_a_file_inside(errors);
            check_mode(&mode, errors);
        }
    }
}

fn check_mode(mode: &ValueAt<'_>, errors: &mut Errors) {
    if mode.is_set() && !(0..=0o777).contains(&mode.number()) {
        mode.invalid("must be a number between 0 and 0777 (octal), both inclusive", errors);
    }
}

/// Validates a projected token. A missing path is reported at the volume, as in Kubernetes.
fn check_token(token: &ValueAt<'_>, projected: &ValueAt<'_>, errors: &mut Errors) {
    let expires = token.field("expirationSeconds");
    if expires.number() < TOKEN_S_MIN {
        expires.invalid("may not specify a duration less than 10 minutes", errors);
    }
    if expires.number() > TOKEN_S_MAX {
        expires.invalid("may not specify a duration larger than 2^32 seconds", errors);
    }
    if token.field("path").is_zero() {
        projected.field("path").required("", errors);
    }
}

fn host_path(source: &ValueAt<'_>, errors: &mut Errors) {
    let path = source.field("path");
    if path.text().split('/').any(|step| step == "..") {
        path.invalid("must not contain '..'", errors);
    }
    source.field("type").must_be_one_of(&HOST_PATH_TYPES, errors);
}
