//! Validates the versions of a definition: their names, which one is stored, and what each of them serves.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::{columns, default_check, open_api, selectable, structural};
use crate::field::{Error, Errors, FieldPath};
use crate::names;
use crate::object::read::{list_at, string_at};
use crate::schema::pattern::PatternBudget;

/// The fields that versions may share.
const SHARED: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

/// The maximum number of versions of a definition. Kinds with the longest history have about ten; each version is a row
/// in the registry and in discovery, and adds about fifteen kilobytes to the OpenAPI document that every client may
/// request.
const VERSIONS_MAX: usize = 100;

/// The maximum length of a deprecation warning.
const DEPRECATION_WARNING_BYTES_MAX: usize = 256;

/// Keywords that are allowed at the root of a schema when status is a subresource.
const ROOT_KEYWORDS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

pub(super) fn versions(spec: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let at = path.field("versions");
    let versions = list_at(spec, "versions");
    if versions.len() > VERSIONS_MAX {
        errors.push(Error::too_many(&at, versions.len(), VERSIONS_MAX));
        return;
    }
    let names: Vec<_> = versions.iter().map(|version| string_at(version, "name")).collect();
    for (index, name) in names.iter().enumerate() {
        let error_texts = names::dns1035_label(name).join(",");
        if !error_texts.is_empty() {
            errors.push(Error::invalid(&at.index(index).field("name"), &(*name).into(), &error_texts));
        }
        // Kubernetes also reports the first version on its own, if it has a name.
        if index == 0 && !name.is_empty() && !error_texts.is_empty() {
            errors.push(Error::invalid(&path.field("version"), &(*name).into(), &error_texts));
        }
        deprecation(&versions[index], &at.index(index), errors);
    }
    let mut seen = HashSet::new();
    if !names.iter().all(|name| seen.insert(name)) {
        errors.push(Error::invalid(&at, &spec["versions"], "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&at, &spec["versions"], detail));
    }
}

fn deprecation(version: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let unprintable = warning.char_indices().find(|(_, letter)| letter.is_control()).map(|(at, _)| at);
    let mut error_texts = Vec::new();
    if version["deprecated"] == true {
        if warning.len() > DEPRECATION_WARNING_BYTES_MAX {
            error_texts.push(format!("must be <= {DEPRECATION_WARNING_BYTES_MAX} characters long"));
        }
        if warning.is_empty() {
            error_texts.push("must not be an empty string".into());
        }
        if let Some(at) = unprintable {
            error_texts.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            ));
        }
    } else {
        error_texts.push("can only be set for deprecated versions".into());
    }
    let at = path.field("deprecationWarning");
    for detail in &error_texts {
        errors.push(Error::invalid(&at, &warning.into(), detail));
    }
}

/// Validates the parts that versions may share: once at the top if they do share them, otherwise in each version.
pub(super) fn shared_and_own(spec: &Value, old: Option<&Value>, path: &FieldPath<'_>, errors: &mut Errors) {
    let versions = list_at(spec, "versions");
    let Some(first) = versions.first().filter(|_| versions.len() <= VERSIONS_MAX) else { return };
    // Computed once for all versions: definitions may have thousands.
    let shared: HashSet<&str> = SHARED
        .into_iter()
        .filter(|name| versions.iter().all(|version| is_same(&version[*name], &first[*name])))
        .collect();
    let is_shared = |name: &str| shared.contains(name);
    let before = old.into_iter().flat_map(|old| list_at(old, "versions"));
    let before: HashMap<&str, &Value> =
        before.map(|version| (string_at(version, "name"), &version["schema"])).collect();
    let unchanged = |version: &Value| {
        before.get(string_at(version, "name")).is_some_and(|old| **old == version["schema"])
    };
    let any_status = versions.iter().any(|version| !version["subresources"]["status"].is_null());
    let mut patterns = PatternBudget::default();
    let has_status = |version: &Value| !version["subresources"]["status"].is_null();
    for (index, version) in versions.iter().enumerate() {
        let own = path.field("versions");
        let own = own.index(index);
        let place = |name: &str| if is_shared(name) { (index == 0).then_some(*path) } else { Some(own) };
        if version["schema"]["openAPIV3Schema"].is_null() {
            let at = own.field("schema");
            errors.push(Error::required(&at.field("openAPIV3Schema"), ""));
        } else if let (Some(at), false) = (place("schema"), unchanged(version)) {
            let name = if is_shared("schema") { "validation" } else { "schema" };
            let status = if is_shared("schema") { any_status } else { has_status(version) };
            let node = &version["schema"]["openAPIV3Schema"];
            schema(node, status, &at.field(name), errors, &mut patterns);
        }
        if let Some(at) = place("subresources") {
            columns::subresources(&version["subresources"], &at.field("subresources"), errors);
        }
        if let Some(at) = place("additionalPrinterColumns") {
            columns::columns(list_at(version, "additionalPrinterColumns"), &at, errors);
        }
        if let Some(at) = place("selectableFields") {
            let fields = list_at(version, "selectableFields");
            let schema = &version["schema"]["openAPIV3Schema"];
            selectable::validate(fields, schema, &at.field("selectableFields"), errors);
        }
    }
}

/// Returns whether two values are equal, where absent and empty are the same.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    one == other || is_empty(one) && is_empty(other)
}

fn schema(
    schema: &Value,
    has_status: bool,
    path: &FieldPath<'_>,
    errors: &mut Errors,
    patterns: &mut PatternBudget,
) {
    let at = path.field("openAPIV3Schema");
    let before = errors.len();
    if has_status {
        root_keywords(schema, &at, errors);
    }
    if schema["nullable"] == true {
        errors.push(Error::forbidden(&at.field("nullable"), "nullable cannot be true at the root"));
    }
    match structural::unsupported(schema) {
        None => {
            let shape = structural::validate(schema, &at, patterns);
            let is_structural = shape.is_empty();
            errors.append(shape);
            if is_structural {
                default_check::validate(schema, &at, errors);
            }
            open_api::validate(schema, &at, errors);
        }
        Some(why) => {
            open_api::validate(schema, &at, errors);
            if errors.len() == before {
                errors.push(Error::invalid(&at, &"".into(), &why));
            }
        }
    }
}

fn root_keywords(schema: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let kind = string_at(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(Error::invalid(&path.field("type"), &kind.into(), detail));
    }
    let keywords = schema.as_object().into_iter().flat_map(Map::keys);
    if keywords.into_iter().any(|keyword| !ROOT_KEYWORDS.contains(&keyword.as_str())) {
        let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
        errors.push(Error::invalid(path, schema, detail));
    }
}

pub(super) fn stored_versions(definition: &Value, errors: &mut Errors) {
    let path = FieldPath::Root;
    let path = path.field("status");
    let path = path.field("storedVersions");
    let stored = list_at(&definition["status"], "storedVersions");
    if stored.is_empty() {
        errors.push(Error::invalid(&path, &Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = list_at(&definition["spec"], "versions");
    let known: HashSet<&Value> = stored.iter().collect();
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !known.contains(&version["name"]) {
            let detail = format!("must have the storage version {}", string_at(version, "name"));
            errors.push(Error::invalid(&path, &definition["status"]["storedVersions"], &detail));
        }
    }
    let named: HashSet<&Value> = versions.iter().map(|version| &version["name"]).collect();
    for (index, name) in stored.iter().enumerate() {
        if !named.contains(name) {
            let shown = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), name, &detail));
        }
    }
}
