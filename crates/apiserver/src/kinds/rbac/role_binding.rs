//! RoleBinding: who has a role in a namespace.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::auth::RBAC_GROUP;
use crate::field::Error;
use crate::kinds::declaration::Kind;
use crate::kinds::fill::{Fields, each, fill_zero, made};
use crate::kinds::names;
use crate::kinds::names::NameRule;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};

/// The columns of bindings, in a namespace or everywhere.
pub(super) const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role"),
    Column::text("Age"),
    Column::text("Users").wide(),
    Column::text("Groups").wide(),
    Column::text("ServiceAccounts").wide(),
];

/// Who has a role in a namespace.
pub(crate) static ROLE_BINDING: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    defaults: Some(defaults),
    validate: Some(validate),
    validate_update: Some(validate_update),
    columns: COLUMNS,
    cells: Some(cells),
    ..Kind::namespaced("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
};

/// A RoleBinding.
fn validate(object: &At<'_>, errors: &mut Errors) {
    binding(object, &["Role", "ClusterRole"], true, errors);
}

pub(in crate::kinds) fn binding(object: &At<'_>, kinds: &[&str], is_namespaced: bool, errors: &mut Errors) {
    let reference = object.field("roleRef");
    must_be(&reference.field("apiGroup"), &[RBAC_GROUP], errors);
    must_be(&reference.field("kind"), kinds, errors);
    reference.field("name").must_be_named(names::path_segment, errors);
    for subject in object.field("subjects").items() {
        check_subject(&subject, is_namespaced, errors);
    }
}

/// Unlike an optional choice, an absent value is unsupported too.
fn must_be(place: &At<'_>, supported: &[&str], errors: &mut Errors) {
    if !supported.contains(&place.text()) {
        errors.push(Error::not_supported(&place.path, &json!(place.text()), supported));
    }
}

fn check_subject(subject: &At<'_>, is_namespaced: bool, errors: &mut Errors) {
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
        "User" | "Group" => must_be(&subject.field("apiGroup"), &[RBAC_GROUP], errors),
        _ => must_be(&subject.field("kind"), &["ServiceAccount", "User", "Group"], errors),
    }
}

/// A changed binding: the role it grants stays.
pub(in crate::kinds) fn validate_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let reference = new.field("roleRef");
    let before = &old["roleRef"];
    if ["apiGroup", "kind", "name"].iter().all(|name| reference.field(name).value == &before[name]) {
        return;
    }
    // The real server prints the fields by their Go names.
    let shown = json!({"APIGroup": reference.field("apiGroup").value, "Kind": reference.field("kind").value,
        "Name": reference.field("name").value});
    errors.push(Error::invalid(&reference.path, &shown, "cannot change roleRef"));
}

/// A RoleBinding or ClusterRoleBinding.
pub(in crate::kinds) fn defaults(object: &mut Fields) {
    if let Some(reference) = made(object, "roleRef") {
        fill_zero(reference, "apiGroup", RBAC_GROUP);
    }
    for subject in each(object, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            fill_zero(subject, "apiGroup", RBAC_GROUP);
        }
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = format!("{}/{}", read::text(object, "roleRef.kind"), read::text(object, "roleRef.name"));
    vec![
        read::name(object).into(),
        role.into(),
        age::of(object, now).into(),
        subjects(object, "User").into(),
        subjects(object, "Group").into(),
        subjects(object, "ServiceAccount").into(),
    ]
}

fn subjects(object: &Value, kind: &str) -> String {
    let of_kind = read::list(object, "subjects").iter().filter(|subject| read::text(subject, "kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", read::text(subject, "namespace"), read::text(subject, "name")),
        _ => read::text(subject, "name").to_owned(),
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
