//! Validates the references through which a container reads about its own Pod: fields and resources, as variables or as
//! files.
//!
//! **Invariant:** the paths of errors about files do not say which file is wrong, as in kube-apiserver. Whether file
//! paths stay inside their volume is deliberately not validated.

use homeostat_core::quantity::parse_nanos;
use serde_json::json;

use crate::field::Error;
use crate::names;
use crate::resource::value_at::{Errors, ValueAt};

const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Known fields that are available neither as variables nor as files.
const OTHER_FIELDS: [&str; 3] = ["spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const UNITS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates the source of a variable.
pub(in crate::kinds) fn variable(source: &ValueAt<'_>, errors: &mut Errors) {
    let (field, resource) = (source.field("fieldRef"), source.field("resourceFieldRef"));
    if field.is_set() {
        check_field(&field, &VARIABLE_FIELDS, errors);
    }
    if resource.is_set() {
        check_resource(&resource, errors);
    }
}

/// Validates the files of a volume or of a projected source.
pub(in crate::kinds) fn files(source: &ValueAt<'_>, errors: &mut Errors) {
    for file in source.field("items").items() {
        file_of(&ValueAt { value: file.value, path: source.path }, errors);
    }
}

fn file_of(file: &ValueAt<'_>, errors: &mut Errors) {
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    let path = file.field("path");
    path.must_be_set(errors);
    path.must_be_a_file_inside(errors);
    if field.is_set() {
        check_field(&field, &FILE_FIELDS, errors);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.push(Error::invalid(&file.path, &json!("resource"), detail));
        }
    } else if !resource.is_set() {
        file.required("one of fieldRef and resourceFieldRef is required", errors);
    } else if resource.field("containerName").must_be_set(errors) {
        check_resource(&resource, errors);
    }
}

fn check_field(reference: &ValueAt<'_>, supported: &[&str], errors: &mut Errors) {
    let path = reference.field("fieldPath");
    if !path.must_be_set(errors) {
        return;
    }
    let text = if path.text() == "spec.host" { "spec.nodeName" } else { path.text() };
    let subscripted = text.strip_suffix("']").and_then(|text| text.split_once("['"));
    match subscripted.filter(|(field, _)| !field.is_empty()) {
        Some(("metadata.annotations", key)) => qualified(reference, &key.to_lowercase(), errors),
        Some(("metadata.labels", key)) => qualified(reference, key, errors),
        Some(_) => {
            let why = format!("error converting fieldPath: field label does not support subscript: {text}");
            path.invalid(&why, errors);
        }
        None if supported.contains(&text) => {}
        None if is_known(text) => errors.push(Error::not_supported(&path.path, &json!(text), supported)),
        None => {
            path.invalid(&format!("error converting fieldPath: field label not supported: {text}"), errors);
        }
    }
}

fn is_known(field: &str) -> bool {
    [&VARIABLE_FIELDS[..], &FILE_FIELDS, &OTHER_FIELDS].iter().any(|known| known.contains(&field))
}

fn qualified(reference: &ValueAt<'_>, key: &str, errors: &mut Errors) {
    for error_text in names::qualified(key) {
        errors.push(Error::invalid(&reference.path, &json!(key), &error_text));
    }
}

fn check_resource(reference: &ValueAt<'_>, errors: &mut Errors) {
    let resource = reference.field("resource");
    let name = resource.text();
    let is_huge = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if resource.must_be_set(errors) && !is_huge {
        resource.must_be_one_of(&RESOURCES, errors);
    }
    let divisor = reference.field("divisor");
    if divisor.is_zero() || parse_nanos(divisor.text()) == Some(0) {
        return;
    }
    let (supported, what) = match name.split_once('.') {
        Some((_, "cpu")) => (&["1m", "1"][..], "1m and 1 are supported with the cpu".to_owned()),
        Some((_, "memory")) => (&UNITS[..], units_text("memory")),
        Some((_, "ephemeral-storage")) => (&UNITS[..], units_text("local ephemeral storage")),
        _ if is_huge => (&UNITS[..], units_text("hugepages")),
        _ => return,
    };
    if !supported.contains(&divisor.text()) {
        let detail = format!("only divisor's values {what} resource");
        errors.push(Error::invalid(&divisor.path, &json!(name), &detail));
    }
}

fn units_text(resource: &str) -> String {
    format!("{} are supported with the {resource}", UNITS.join(", "))
}
