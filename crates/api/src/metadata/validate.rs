//! Validates the `metadata` of an object, both on its own and as a replacement for another object.
//!
//! Decoding has already checked the types. A good object causes no allocation beyond the empty list.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};

use crate::field::{BoundedTexts, Error, Errors, FieldPath};
use crate::names::{self, NameRule};
use crate::object::read;

/// The maximum size of all annotations of one object.
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;
/// The maximum length of a field manager's name in Kubernetes.
const MANAGER_BYTES_MAX: usize = 128;
/// The maximum length of a subresource in `managedFields`.
const SUBRESOURCE_BYTES_MAX: usize = 256;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
const IMMUTABLE: &str = "field is immutable";

/// Fields that no client may change.
const IMMUTABLE_FIELDS: [&str; 6] =
    ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"];

/// A kind's rules for its metadata.
#[derive(Clone, Copy, Debug)]
pub struct MetadataRules {
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// How they may be named.
    pub name: NameRule,
    /// Whether the kind is custom. Custom kinds accept any qualified finalizer, and validate a generated name only as
    /// a whole.
    pub is_custom: bool,
}

/// Validates the metadata of a new object, whose name is already generated.
pub fn validate_object_meta(meta: &Value, rules: MetadataRules, path: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::new();
    let generate_name = read::string_at(meta, "generateName");
    if !generate_name.is_empty() && !rules.is_custom {
        report_all(
            &mut errors,
            &path.field("generateName"),
            generate_name,
            &rules.name.check_prefix(generate_name),
        );
    }
    match read::string_at(meta, "name") {
        "" => errors.push(Error::required(&path.field("name"), "name or generateName is required")),
        name => report_all(&mut errors, &path.field("name"), name, &rules.name.check(name)),
    }
    validate_namespace(meta, rules.namespaced, path, &mut errors);
    validate_common(meta, path, &mut errors);
    validate_finalizers(meta, path, &mut errors);
    if !rules.is_custom {
        standard_finalizers(meta, path, &mut errors);
    }
    errors
}

/// Validates the metadata of an object that replaces `old`.
///
/// Kubernetes validates an update once for all kinds and once per kind and reports both: each error appears twice.
pub fn validate_object_meta_update(
    new: &Value,
    old: &Value,
    rules: MetadataRules,
    path: &FieldPath<'_>,
) -> Errors {
    let mut errors = Errors::new();
    if !old["deletionTimestamp"].is_null() {
        no_new_finalizers(new, old, path, &mut errors);
    }
    if read::string_at(new, "resourceVersion").is_empty() {
        let path = path.field("resourceVersion");
        errors.push(Error::invalid(&path, &"".into(), "must be specified for an update"));
    }
    if new["generation"].as_i64() < old["generation"].as_i64() {
        let detail = "must not be decremented";
        errors.push(Error::invalid(&path.field("generation"), &new["generation"], detail));
    }
    for name in IMMUTABLE_FIELDS.into_iter().filter(|name| new[*name] != old[*name]) {
        errors.push(Error::invalid(&path.field(name), &new[name], IMMUTABLE));
    }
    validate_common(new, path, &mut errors);
    errors.repeat();
    validate_finalizers(new, path, &mut errors);
    if !rules.is_custom {
        standard_finalizers(new, path, &mut errors);
    }
    errors
}

/// Returns the warnings about the finalizers of a custom object.
pub fn finalizer_warnings(meta: &Value) -> BoundedTexts {
    let is_odd = |name: &&str| !name.contains('/') && !STANDARD_FINALIZERS.contains(name);
    let mut warnings = BoundedTexts::new();
    for name in texts(&meta["finalizers"]).filter(is_odd) {
        warnings.push_with(|| format!("metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"));
    }
    warnings
}

/// Validates the labels at `path`, including those of templates.
pub fn validate_labels(labels: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    for (key, value) in entries(labels) {
        report_all(errors, path, key, &names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        report_all(errors, path, value, &names::label_value(value));
    }
}

/// Validates the annotations at `path`, including those of templates.
pub fn validate_annotations(annotations: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in entries(annotations) {
        report_all(errors, path, key, &names::qualified(&key.to_lowercase()));
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > ANNOTATION_BYTES_MAX {
        errors.push(Error::too_long(path, ANNOTATION_BYTES_MAX));
    }
}

fn validate_namespace(meta: &Value, namespaced: bool, path: &FieldPath<'_>, errors: &mut Errors) {
    let path = path.field("namespace");
    match (read::string_at(meta, "namespace"), namespaced) {
        ("", true) => errors.push(Error::required(&path, "")),
        (name, true) => report_all(errors, &path, name, &names::label(name)),
        ("", false) => {}
        (_, false) => errors.push(Error::forbidden(&path, "not allowed on this type")),
    }
}

/// Performs the checks that creations and updates have in common.
fn validate_common(meta: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if meta["generation"].as_i64() < Some(0) && !meta["generation"].is_null() {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(&path.field("generation"), &meta["generation"], detail));
    }
    validate_labels(&meta["labels"], &path.field("labels"), errors);
    validate_annotations(&meta["annotations"], &path.field("annotations"), errors);
    owner_references(&meta["ownerReferences"], &path.field("ownerReferences"), errors);
    managed_fields(&meta["managedFields"], &path.field("managedFields"), errors);
}

fn owner_references(owners: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        owner_reference(owner, path, errors);
        if owner["controller"] != Value::Bool(true) {
            continue;
        }
        let this = format!("{}/{}", read::string_at(owner, "kind"), read::string_at(owner, "name"));
        match &controller {
            None => controller = Some(this),
            Some(first) => errors.push_with(|| {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                Error::invalid(path, owners, &detail).written()
            }),
        }
    }
}

fn owner_reference(owner: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let mut empty = |name: &str, detail: &str| {
        errors.push(Error::invalid(&path.field(name), &read::string_at(owner, name).into(), detail));
    };
    let version = read::string_at(owner, "apiVersion");
    if version.is_empty() || version.ends_with('/') || version.matches('/').count() > 1 {
        empty("apiVersion", "version must not be empty");
    }
    for name in ["kind", "name", "uid"].into_iter().filter(|name| read::string_at(owner, name).is_empty()) {
        empty(name, "must not be empty");
    }
    if version == "v1" && read::string_at(owner, "kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(Error::invalid(path, owner, detail));
    }
}

fn validate_finalizers(meta: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let list = &meta["finalizers"];
    let path = path.field("finalizers");
    for name in texts(list) {
        report_all(errors, &path, name, &names::qualified(name));
    }
    if texts(list).any(|name| name == ORPHAN) && texts(list).any(|name| name == FOREGROUND) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(Error::invalid(&path, list, &detail));
    }
}

fn standard_finalizers(meta: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let path = path.field("finalizers");
    for (at, name) in texts(&meta["finalizers"]).enumerate() {
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Error::invalid(&path.index(at), &name.into(), detail));
        }
    }
}

fn no_new_finalizers(new: &Value, old: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let known: HashSet<_> = texts(&old["finalizers"]).collect();
    let is_new = |name: &&str| !known.contains(name);
    let extra: BTreeSet<_> = texts(&new["finalizers"]).filter(is_new).collect();
    if extra.is_empty() {
        return;
    }
    let extra = extra.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{extra}}}"
    );
    errors.push(Error::forbidden(&path.field("finalizers"), &detail));
}

fn managed_fields(entries: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    for (at, entry) in entries.as_array().into_iter().flatten().enumerate() {
        let path = path.index(at);
        match read::string_at(entry, "operation") {
            "Apply" | "Update" => {}
            "" => errors.push(Error::required(&path.field("operation"), "must not be empty")),
            other => {
                let path = path.field("operation");
                errors.push(Error::not_supported(&path, &other.into(), &["Apply", "Update"]));
            }
        }
        let kind = read::string_at(entry, "fieldsType");
        if !kind.is_empty() && kind != "FieldsV1" {
            errors.push(Error::invalid(&path.field("fieldsType"), &kind.into(), "must be `FieldsV1`"));
        }
        if read::string_at(entry, "manager").len() > MANAGER_BYTES_MAX {
            errors.push(Error::too_long(&path.field("manager"), MANAGER_BYTES_MAX));
        }
        if read::string_at(entry, "subresource").len() > SUBRESOURCE_BYTES_MAX {
            errors.push(Error::too_long(&path.field("subresource"), SUBRESOURCE_BYTES_MAX));
        }
    }
}

fn report_all(errors: &mut Errors, path: &FieldPath<'_>, value: &str, error_texts: &[String]) {
    for detail in error_texts {
        errors.push(Error::invalid(path, &value.into(), detail));
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn entries(map: &Value) -> impl Iterator<Item = (&String, &Value)> {
    map.as_object().into_iter().flat_map(Map::iter)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CORE: MetadataRules =
        MetadataRules { namespaced: true, name: NameRule::Subdomain, is_custom: false };
    const CUSTOM: MetadataRules = MetadataRules { is_custom: true, ..CORE };

    /// Compares the fields and the starts of the bodies of all errors.
    #[track_caller]
    fn check(rules: MetadataRules, mut meta: Value, expected: &[(&str, &str)]) {
        meta["namespace"] = "default".into();
        compare(&validate_object_meta(&meta, rules, &FieldPath::Root.field("metadata")), expected);
    }

    #[track_caller]
    fn compare(errors: &[Error], expected: &[(&str, &str)]) {
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        for (error, (field, body)) in errors.iter().zip(expected) {
            assert!(error.field == *field && error.body.starts_with(body), "{error}, not {field}: {body}");
        }
    }

    #[test]
    fn new_metadata_is_judged_as_the_real_server_does() {
        check(CORE, json!({"name": "a", "labels": {"a/b": ""}, "finalizers": ["x/y", "orphan"]}), &[]);
        check(CORE, json!({}), &[("metadata.name", "Required value: name or generateName is required")]);
        check(
            CORE,
            json!({"name": "Bad_x1", "generateName": "Bad_"}),
            &[
                ("metadata.generateName", "Invalid value: \"Bad_\": a lowercase"),
                ("metadata.name", "Invalid value: \"Bad_x1\": a lowercase"),
            ],
        );
        check(
            CUSTOM,
            json!({"name": "W-x1", "generateName": "W-"}),
            &[("metadata.name", "Invalid value: \"W-x1\"")],
        );
        check(
            CORE,
            json!({"name": "a", "labels": {"bad key": "bad value!"}}),
            &[
                ("metadata.labels", "Invalid value: \"bad key\": name part must consist"),
                ("metadata.labels", "Invalid value: \"bad value!\": a valid label must be"),
            ],
        );
        let big = "x".repeat(ANNOTATION_BYTES_MAX);
        check(
            CORE,
            json!({"name": "a", "annotations": {"big": big}}),
            &[("metadata.annotations", "Too long: may not be more than 262144 bytes")],
        );
    }

    #[test]
    fn finalizers_are_qualified_and_built_in_kinds_ask_for_more() {
        check(
            CORE,
            json!({"name": "a", "finalizers": ["plain"]}),
            &[("metadata.finalizers[0]", "Invalid value: \"plain\": name is neither a standard")],
        );
        check(CUSTOM, json!({"name": "a", "finalizers": ["plain"]}), &[]);
        check(
            CUSTOM,
            json!({"name": "a", "finalizers": ["bad name/x"]}),
            &[("metadata.finalizers", "Invalid value: \"bad name/x\": prefix part a lowercase")],
        );
        check(
            CORE,
            json!({"name": "a", "finalizers": [""]}),
            &[
                ("metadata.finalizers", "Invalid value: \"\": name part must be non-empty"),
                ("metadata.finalizers", "Invalid value: \"\": name part must consist"),
                ("metadata.finalizers[0]", "Invalid value: \"\": name is neither"),
            ],
        );
        check(
            CUSTOM,
            json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}),
            &[(
                "metadata.finalizers",
                r#"Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion"#,
            )],
        );
        assert_eq!(finalizer_warnings(&json!({"finalizers": ["plain", "a/b", "orphan"]})).len(), 1);
    }

    #[test]
    fn owners_are_whole_and_at_most_one_controls() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true});
        check(
            CORE,
            json!({"name": "a", "ownerReferences": [owner.clone(), owner.clone()]}),
            &[("metadata.ownerReferences", "Invalid value: ")],
        );
        check(
            CORE,
            json!({"name": "a", "ownerReferences": [{"apiVersion": "a/b/c", "kind": "K", "name": "n"}]}),
            &[
                (
                    "metadata.ownerReferences.apiVersion",
                    "Invalid value: \"a/b/c\": version must not be empty",
                ),
                ("metadata.ownerReferences.uid", "Invalid value: \"\": must not be empty"),
            ],
        );
    }

    #[test]
    fn updates_may_not_change_what_the_server_owns() {
        let old = json!({"name": "a", "uid": "1", "resourceVersion": "5"});
        let path = FieldPath::Root;
        let path = path.field("metadata");
        let judge = |new: Value, old: &Value| validate_object_meta_update(&new, old, CORE, &path);
        compare(&judge(old.clone(), &old), &[]);
        let immutable = ("metadata.uid", "Invalid value: \"2\": field is immutable");
        compare(
            &judge(json!({"name": "a", "uid": "2", "resourceVersion": "5"}), &old),
            &[immutable, immutable],
        );
        let deleting =
            json!({"name": "a", "resourceVersion": "5", "deletionTimestamp": "x", "finalizers": ["a/b"]});
        let mut more = deleting.clone();
        more["finalizers"] = json!(["a/b", "c/d"]);
        let forbidden = (
            "metadata.finalizers",
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}",
        );
        compare(&judge(more, &deleting), &[forbidden, forbidden]);
    }

    #[test]
    fn the_text_of_many_errors_stays_small() {
        let owner = |at: usize| {
            json!({"apiVersion": "v1", "kind": "Pod", "name": at.to_string(), "uid": at.to_string(),
            "controller": true})
        };
        let owners: Vec<_> = (0..10_000).map(owner).collect();
        let meta = json!({"name": "a", "namespace": "default", "ownerReferences": owners});
        let errors = validate_object_meta(&meta, CORE, &FieldPath::Root.field("metadata"));
        let bytes: usize = errors.iter().map(|error| error.body.len()).sum();
        assert!(errors.left_out() > 9000 && bytes < 1024 * 1024, "{bytes} bytes in {} errors", errors.len());
    }

    #[test]
    fn many_finalizers_of_a_dying_object_are_compared_in_one_pass() {
        let named = |prefix: &str| (0..50_000).map(|at| format!("{prefix}/{at}")).collect::<Vec<_>>();
        let old =
            json!({"name": "a", "resourceVersion": "1", "deletionTimestamp": "x", "finalizers": named("a")});
        let mut new = old.clone();
        new["finalizers"] = json!(named("b"));
        let errors = validate_object_meta_update(&new, &old, CORE, &FieldPath::Root.field("metadata"));
        assert_eq!((errors.len(), &*errors[0].field), (2, "metadata.finalizers"));
    }
}
