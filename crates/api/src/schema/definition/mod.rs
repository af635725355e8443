//! Fills in the defaults of CustomResourceDefinitions and validates them.
//!
//! The parts that all versions share are validated once and reported at the top of the spec (`spec.validation` …),
//! where Kubernetes stores them internally; only versions that differ are reported one by one. An unchanged schema is
//! not validated again, so that a stricter server does not block updates to old definitions. Metadata is validated in
//! the same way as for all kinds; expressions are compiled elsewhere.

mod columns;
mod conversion;
mod default_check;
mod identity;
mod open_api;
mod selectable;
mod structural;
mod versions;
mod warnings;

pub use warnings::definition_warnings;

use serde_json::{Value, json};

use crate::field::{Error, Errors, FieldPath};
use crate::object::read::string_at;

/// The default port of the service of a conversion webhook.
const HTTPS_PORT: u16 = 443;

/// Fills in the fields that a definition leaves out: names derived from the kind, no conversion, the stored version.
pub fn default_definition(definition: &mut Value) {
    let spec = &mut definition["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    let kind = string_at(&spec["names"], "kind").to_owned();
    let lower = kind.to_lowercase();
    if string_at(&spec["names"], "singular").is_empty() {
        spec["names"]["singular"] = lower.into();
    }
    if string_at(&spec["names"], "listKind").is_empty() && !kind.is_empty() {
        spec["names"]["listKind"] = format!("{kind}List").into();
    }
    if spec["conversion"].is_null() {
        spec["conversion"] = json!({"strategy": "None"});
    }
    let service = definition.pointer_mut("/spec/conversion/webhook/clientConfig/service");
    if let Some(Value::Object(service)) = service {
        service.entry("port").or_insert_with(|| HTTPS_PORT.into());
    }
    store_version(definition);
}

/// Adds the storage version to the stored versions.
pub fn store_version(definition: &mut Value) {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let Some(name) =
        versions.filter(|version| version["storage"] == true).map(|one| one["name"].clone()).next()
    else {
        return;
    };
    let stored = &mut definition["status"]["storedVersions"];
    match stored {
        Value::Array(stored) if stored.contains(&name) => {}
        Value::Array(stored) => stored.push(name),
        _ => *stored = json!([name]),
    }
}

/// Validates a definition, either new or replacing `old`. Its defaults are already filled in.
pub fn validate_definition(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let spec = &new["spec"];
    let name = string_at(&new["metadata"], "name");
    let is_named_after =
        name == format!("{}.{}", string_at(&spec["names"], "plural"), string_at(spec, "group"));
    // On update, the check that the name's parts are immutable gives a better error.
    if old.is_none() && !is_named_after {
        let root = FieldPath::Root;
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(Error::invalid(&root.field("metadata").field("name"), &name.into(), detail));
    }
    let path = FieldPath::Root;
    let path = path.field("spec");
    identity::group(spec, &path, &mut errors);
    versions::versions(spec, &path, &mut errors);
    identity::all_names(&spec["names"], &path.field("names"), &mut errors);
    versions::shared_and_own(spec, old.map(|old| &old["spec"]), &path, &mut errors);
    conversion::validate(&spec["conversion"], &path.field("conversion"), &mut errors);
    preserved(spec, &path, &mut errors);
    versions::stored_versions(new, &mut errors);
    identity::approval(new, old, &mut errors);
    if let Some(old) = old {
        identity::immutable(new, old, &path, &mut errors);
    }
    errors
}

fn preserved(spec: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(&path.field("preserveUnknownFields"), &true.into(), detail));
    }
}

#[cfg(test)]
mod tests;
