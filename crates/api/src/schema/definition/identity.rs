//! Validates the identity of a definition: its group and names, who may use them, and that they do not change.

use serde_json::Value;

use crate::field::{Error, Errors, FieldPath};
use crate::names;
use crate::object::read::{list_at, string_at};

const APPROVAL: &str = "api-approved.kubernetes.io";

pub(super) fn group(spec: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let group = string_at(spec, "group");
    let at = path.field("group");
    let error_texts = names::subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&at, ""));
    } else if !error_texts.is_empty() {
        errors.push(Error::invalid(&at, &group.into(), &error_texts.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(&at, &group.into(), "should be a domain with at least one dot"));
    }
    match string_at(spec, "scope") {
        "" => errors.push(Error::required(&path.field("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let supported = ["Cluster", "Namespaced"];
            errors.push(Error::not_supported(&path.field("scope"), &other.into(), &supported));
        }
    }
}

pub(super) fn all_names(names: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    for name in ["plural", "singular", "kind", "listKind"] {
        if string_at(names, name).is_empty() {
            errors.push(Error::required(&path.field(name), ""));
        }
    }
    for name in ["plural", "singular"] {
        label(string_at(names, name), &path.field(name), errors);
    }
    for name in ["kind", "listKind"] {
        let value = string_at(names, name);
        let error_texts = names::dns1035_label(&value.to_lowercase()).join(",");
        if !value.is_empty() && !error_texts.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {error_texts}");
            errors.push(Error::invalid(&path.field(name), &value.into(), &detail));
        }
    }
    let (kind, list_kind) = (string_at(names, "kind"), string_at(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.field("listKind"), &list_kind.into(), detail));
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in list_at(names, field).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let error_texts = names::dns1035_label(name).join(",");
            if !error_texts.is_empty() {
                errors.push(Error::invalid(&path.field(field).index(index), &name.into(), &error_texts));
            }
        }
    }
}

fn label(value: &str, path: &FieldPath<'_>, errors: &mut Errors) {
    let error_texts = names::dns1035_label(value).join(",");
    if !value.is_empty() && !error_texts.is_empty() {
        errors.push(Error::invalid(path, &value.into(), &error_texts));
    }
}

/// Requires the approval of the Kubernetes community for its groups.
pub(super) fn approval(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let group = string_at(&new["spec"], "group");
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
    let path = FieldPath::Root;
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

pub(super) fn immutable(new: &Value, old: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
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
    let conditions = list_at(&definition["status"], "conditions");
    conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
}
