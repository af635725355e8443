//! CustomResourceDefinitions: what a new one gets, and what is wrong with one.
//!
//! What all versions share is judged once and reported at the top of the spec (`spec.validation` …), where
//! Kubernetes keeps it inside; only differing versions are reported one by one. A schema that did not change is not
//! judged again, so that a stricter server does not hold old definitions hostage. Metadata is judged with that of
//! all kinds; expressions are compiled elsewhere.

mod columns;
mod conversion;
mod default_check;
mod open_api;
mod selectable;
mod structural;

use serde_json::{Map, Value, json};

use crate::field::{Error, Path};
use crate::kinds::names;

const APPROVAL: &str = "api-approved.kubernetes.io";
/// Where a conversion webhook is called when its service names no port.
const HTTPS_PORT: u16 = 443;
/// As long as a warning may be.
const DEPRECATION_WARNING_BYTES_MAX: usize = 256;

/// What may stand at the root of a schema when status is a subresource.
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

/// Fills in what a definition leaves out: names derived from the kind, no conversion, the stored version.
pub fn default_definition(definition: &mut Value) {
    let spec = &mut definition["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    let kind = text(&spec["names"], "kind").to_owned();
    let lower = kind.to_lowercase();
    if text(&spec["names"], "singular").is_empty() {
        spec["names"]["singular"] = lower.into();
    }
    if text(&spec["names"], "listKind").is_empty() && !kind.is_empty() {
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

/// Notes the storage version among the stored ones.
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

/// What is wrong with a definition, alone or as the successor of `old`. It is prepared: defaults are filled in.
pub fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<Error> {
    let mut errors = Vec::new();
    let spec = &new["spec"];
    let name = text(&new["metadata"], "name");
    if name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
        let root = Path::Root;
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(Error::invalid(&root.field("metadata").field("name"), &name.into(), detail));
    }
    let path = Path::Root;
    let path = path.field("spec");
    group(spec, &path, &mut errors);
    versions(spec, &path, &mut errors);
    all_names(&spec["names"], &path.field("names"), &mut errors);
    shared_and_own(spec, old.map(|old| &old["spec"]), &path, &mut errors);
    conversion::validate(&spec["conversion"], &path.field("conversion"), &mut errors);
    preserved(spec, &path, &mut errors);
    stored_versions(new, &mut errors);
    approval(new, old, &mut errors);
    if let Some(old) = old {
        immutable(new, old, &path, &mut errors);
    }
    errors
}

fn group(spec: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    let group = text(spec, "group");
    let at = path.field("group");
    let complaints = names::subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&at, ""));
    } else if !complaints.is_empty() {
        errors.push(Error::invalid(&at, &group.into(), &complaints.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(&at, &group.into(), "should be a domain with at least one dot"));
    }
    match text(spec, "scope") {
        "" => errors.push(Error::required(&path.field("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let supported = ["Cluster", "Namespaced"];
            errors.push(Error::not_supported(&path.field("scope"), &other.into(), &supported));
        }
    }
}

fn versions(spec: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    let at = path.field("versions");
    let versions = list(spec, "versions");
    let names: Vec<_> = versions.iter().map(|version| text(version, "name")).collect();
    for (index, name) in names.iter().enumerate() {
        let complaints = names::dns1035_label(name).join(",");
        if !complaints.is_empty() {
            errors.push(Error::invalid(&at.index(index).field("name"), &(*name).into(), &complaints));
        }
        // Inside, the first version also stands on its own.
        if index == 0 && !complaints.is_empty() {
            errors.push(Error::invalid(&path.field("version"), &(*name).into(), &complaints));
        }
        deprecation(&versions[index], &at.index(index), errors);
    }
    if names.iter().enumerate().any(|(index, name)| names[..index].contains(name)) {
        errors.push(Error::invalid(&at, &spec["versions"], "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&at, &spec["versions"], detail));
    }
}

fn deprecation(version: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let unprintable = warning.char_indices().find(|(_, letter)| letter.is_control()).map(|(at, _)| at);
    let mut complaints = Vec::new();
    if version["deprecated"] == true {
        if warning.len() > DEPRECATION_WARNING_BYTES_MAX {
            complaints.push(format!("must be <= {DEPRECATION_WARNING_BYTES_MAX} characters long"));
        }
        if warning.is_empty() {
            complaints.push("must not be an empty string".into());
        }
        if let Some(at) = unprintable {
            complaints.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            ));
        }
    } else {
        complaints.push("can only be set for deprecated versions".into());
    }
    let at = path.field("deprecationWarning");
    errors.extend(complaints.iter().map(|detail| Error::invalid(&at, &warning.into(), detail)));
}

fn all_names(names: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(names, name).is_empty() {
            errors.push(Error::required(&path.field(name), ""));
        }
    }
    for name in ["plural", "singular"] {
        label(text(names, name), &path.field(name), errors);
    }
    for name in ["kind", "listKind"] {
        let value = text(names, name);
        let complaints = names::dns1035_label(&value.to_lowercase()).join(",");
        if !value.is_empty() && !complaints.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {complaints}");
            errors.push(Error::invalid(&path.field(name), &value.into(), &detail));
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.field("listKind"), &list_kind.into(), detail));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list(names, field).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let complaints = names::dns1035_label(name).join(",");
            if !complaints.is_empty() {
                errors.push(Error::invalid(&path.field(field).index(index), &name.into(), &complaints));
            }
        }
    }
}

fn label(value: &str, path: &Path<'_>, errors: &mut Vec<Error>) {
    let complaints = names::dns1035_label(value).join(",");
    if !value.is_empty() && !complaints.is_empty() {
        errors.push(Error::invalid(path, &value.into(), &complaints));
    }
}

/// Judges what versions may share: once at the top if they do, else in each of them.
fn shared_and_own(spec: &Value, old: Option<&Value>, path: &Path<'_>, errors: &mut Vec<Error>) {
    let versions = list(spec, "versions");
    let Some(first) = versions.first() else { return };
    let is_shared = |name: &str| versions.iter().all(|version| is_same(&version[name], &first[name]));
    let unchanged = |version: &Value| {
        let before = old.into_iter().flat_map(|old| list(old, "versions"));
        before.into_iter().any(|one| one["name"] == version["name"] && one["schema"] == version["schema"])
    };
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
            let any_status = versions.iter().any(has_status);
            let status = if is_shared("schema") { any_status } else { has_status(version) };
            schema(&version["schema"]["openAPIV3Schema"], status, &at.field(name), errors);
        }
        if let Some(at) = place("subresources") {
            columns::subresources(&version["subresources"], &at.field("subresources"), errors);
        }
        if let Some(at) = place("additionalPrinterColumns") {
            columns::columns(list(version, "additionalPrinterColumns"), &at, errors);
        }
        if let Some(at) = place("selectableFields") {
            let fields = list(version, "selectableFields");
            let schema = &version["schema"]["openAPIV3Schema"];
            selectable::validate(fields, schema, &at.field("selectableFields"), errors);
        }
    }
}

/// Equal, absence and emptiness being the same.
fn is_same(one: &Value, other: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    one == other || is_empty(one) && is_empty(other)
}

fn schema(schema: &Value, has_status: bool, path: &Path<'_>, errors: &mut Vec<Error>) {
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
            let shape = structural::validate(schema, &at);
            let is_structural = shape.is_empty();
            errors.extend(shape);
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

fn root_keywords(schema: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    let kind = text(schema, "type");
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

fn preserved(spec: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(&path.field("preserveUnknownFields"), &true.into(), detail));
    }
}

fn stored_versions(definition: &Value, errors: &mut Vec<Error>) {
    let path = Path::Root;
    let path = path.field("status");
    let path = path.field("storedVersions");
    let stored = list(&definition["status"], "storedVersions");
    if stored.is_empty() {
        errors.push(Error::invalid(&path, &Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = list(&definition["spec"], "versions");
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            let detail = format!("must have the storage version {}", text(version, "name"));
            errors.push(Error::invalid(&path, &definition["status"]["storedVersions"], &detail));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| &version["name"] == name) {
            let shown = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {shown} and removes {shown} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(index), name, &detail));
        }
    }
}

/// Groups of the Kubernetes community need its approval.
fn approval(new: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    let group = text(&new["spec"], "group");
    let is_below =
        |domain: &str| group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    if !is_below("k8s.io") && !is_below("kubernetes.io") {
        return;
    }
    let annotation = |definition: &Value| definition["metadata"]["annotations"][APPROVAL].clone();
    let given = annotation(new);
    if old.is_some_and(|old| annotation(old) == given) {
        return;
    }
    let given = given.as_str().unwrap_or_default();
    let path = Path::Root;
    let path = path.field("metadata");
    let path = path.field("annotations");
    let path = path.key(APPROVAL);
    let start = format!("protected groups must have approval annotation {APPROVAL:?}");
    let end = "see https://github.com/kubernetes/enhancements/pull/1111";
    if given.is_empty() {
        errors.push(Error::required(&path, &format!("{start}, {end}")));
    } else if !given.starts_with("unapproved") && !given.contains("://") {
        let detail = format!("{start} with either a URL or a reason starting with \"unapproved\", {end}");
        errors.push(Error::invalid(&path, &given.into(), &detail));
    }
}

fn immutable(new: &Value, old: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    let mut compare = |parents: &[&str], name: &str| {
        let at = |definition: &Value| {
            parents.iter().fold(definition["spec"].clone(), |value, parent| value[*parent].clone())[name]
                .clone()
        };
        let (given, before) = (at(new), at(old));
        if given != before {
            let names = path.field("names");
            let place = if parents.is_empty() { path.field(name) } else { names.field(name) };
            errors.push(Error::invalid(&place, &given, "field is immutable"));
        }
    };
    if is_established(old) {
        compare(&[], "scope");
        compare(&["names"], "kind");
    }
    compare(&[], "group");
    compare(&["names"], "plural");
}

fn is_established(definition: &Value) -> bool {
    let conditions = list(&definition["status"], "conditions");
    conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests;
