//! RoleBinding: grants a role in a namespace.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::rbac::GROUP;
use crate::names;
use crate::names::NameRule;
use crate::object::fill::{JsonObject, object_or_insert, objects_mut, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// The columns of RoleBindings and ClusterRoleBindings.
pub(super) const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role"),
    Column::text("Age"),
    Column::text("Users").wide(),
    Column::text("Groups").wide(),
    Column::text("ServiceAccounts").wide(),
];

/// Grants a role in a namespace.
pub(crate) static ROLE_BINDING: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: COLUMNS,
    cells: Some(cells),
    ..BuiltInKind::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
};

/// Validates a RoleBinding.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    binding(object, &["Role", "ClusterRole"], true, errors);
}

pub(in crate::kinds) fn binding(
    object: &ValueAt<'_>,
    kinds: &[&str],
    is_namespaced: bool,
    errors: &mut Errors,
) {
    let reference = object.field("roleRef");
    must_be(&reference.field("apiGroup"), &[GROUP], errors);
    must_be(&reference.field("kind"), kinds, errors);
    reference.field("name").must_be_named(names::path_segment, errors);
    for subject in object.field("subjects").items() {
        check_subject(&subject, is_namespaced, errors);
    }
}

/// Requires one of the supported values; unlike with an optional choice, absence is also an error.
fn must_be(place: &ValueAt<'_>, supported: &[&str], errors: &mut Errors) {
    if !supported.contains(&place.text()) {
        errors.push(Error::not_supported(&place.path, &json!(place.text()), supported));
    }
}

fn check_subject(subject: &ValueAt<'_>, is_namespaced: bool, errors: &mut Errors) {
    let name = subject.field("name");
    name.must_be_set(errors);
    match subject.field("kind").text() {
        "ServiceAccount" => {
            name.must_pass(names::subdomain, errors);
            must_be(&subject.field("apiGroup"), &[""], errors);
            if !is_namespaced {
                subject.field("namespace").must_be_set(errors);
            }
        }
        "User" | "Group" => must_be(&subject.field("apiGroup"), &[GROUP], errors),
        _ => must_be(&subject.field("kind"), &["ServiceAccount", "User", "Group"], errors),
    }
}

/// Validates a changed binding: the role it grants must not change.
pub(in crate::kinds) fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let reference = new.field("roleRef");
    let before = &old["roleRef"];
    if ["apiGroup", "kind", "name"].iter().all(|name| reference.field(name).value == &before[name]) {
        return;
    }
    // kube-apiserver prints the fields by their Go names.
    let shown = json!({"APIGroup": reference.field("apiGroup").value, "Kind": reference.field("kind").value,
        "Name": reference.field("name").value});
    errors.push(Error::invalid(&reference.path, &shown, "cannot change roleRef"));
}

/// Fills in the defaults of a RoleBinding or ClusterRoleBinding.
pub(in crate::kinds) fn defaults(object: &mut JsonObject) {
    if let Some(reference) = object_or_insert(object, "roleRef") {
        set_if_zero(reference, "apiGroup", GROUP);
    }
    for subject in objects_mut(object, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            set_if_zero(subject, "apiGroup", GROUP);
        }
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let role =
        format!("{}/{}", read::string_at(object, "roleRef.kind"), read::string_at(object, "roleRef.name"));
    vec![
        read::name(object).into(),
        role.into(),
        age::age_of_object(object, now).into(),
        subjects(object, "User").into(),
        subjects(object, "Group").into(),
        subjects(object, "ServiceAccount").into(),
    ]
}

fn subjects(object: &Value, kind: &str) -> String {
    let of_kind =
        read::list_at(object, "subjects").iter().filter(|subject| read::string_at(subject, "kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => {
            format!("{}/{}", read::string_at(subject, "namespace"), read::string_at(subject, "name"))
        }
        _ => read::string_at(subject, "name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subjects_are_listed_by_kind() {
        let object = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "User", "name": "u"}, {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]});
        let printed = json!(["b", "ClusterRole/admin", "<unknown>", "u, v", "", "n/s"]);
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), printed);
    }
}
