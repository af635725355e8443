//! Namespace: a room for objects with names of their own.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::declaration::{Deletion, FirstStatus, Kind, Part, Protected, STATUS, Write};
use crate::kinds::fill::{Fields, fill_zero, inner, is_zero, made};
use crate::kinds::names::NameRule;
use crate::kinds::printing::{Column, age, read};
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::{names, prepare};

/// The prefix of the labels by which a namespace asks for the Pod Security Standards.
const POD_SECURITY: &str = "pod-security.kubernetes.io";
/// The modes of those labels, and what this server does not do about each.
const POD_SECURITY_MODES: [(&str, &str); 3] = [
    ("enforce", "enforce it: Pods of any sort can be created"),
    ("warn", "act on it: nobody is warned about Pods that violate it"),
    ("audit", "act on it: there is no audit log"),
];

/// A room for objects with names of their own.
pub(crate) static NAMESPACE: Kind = Kind {
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    short_names: &["ns"],
    subresources: &[
        Part::own("finalize", &["update"])
            .merged_by(|_, stored, body, _| finalize(stored, &body))
            .judged_by(|new, _, errors| validate(new, errors)),
        STATUS,
    ],
    strategy: PLAIN.returned().named(NameRule::Label).with_status(SPEC),
    defaults: Some(defaults),
    first_status: FirstStatus::Fixed(|| json!({"phase": "Active"})),
    prepare_create: Some(|_, fields, _| {
        namespace_created(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, old| prepare::keep(fields, old, "spec.finalizers")),
    validate: Some(validate),
    validate_status: Some(validate_status),
    warn_unenforced: Some(warn_unenforced),
    protected: Protected {
        names: &["default", "kube-system", "kube-public"],
        why: "this namespace may not be deleted",
    },
    deletion: Deletion {
        begin: None,
        mark: Some(|namespace| namespace["status"]["phase"] = json!("Terminating")),
        // Namespaces end by their content, not by a period.
        has_grace_period: false,
        is_held: Some(|namespace| {
            namespace["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
        }),
    },
    columns: &[Column::NAME, Column::text("Status"), Column::text("Age")],
    cells: Some(cells),
    selectable: Selectable::fields(&[("status.phase", Absent::Empty)]).without_namespace(),
    ..Kind::cluster_scoped("", "v1", "namespaces", "Namespace")
};

/// A Namespace: its finalizers are qualified names.
fn validate(object: &At<'_>, errors: &mut Errors) {
    for finalizer in object.field("spec").field("finalizers").items() {
        finalizer.must_pass(names::qualified, errors);
        if !finalizer.text().contains('/') && finalizer.text() != "kubernetes" {
            finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified", errors);
        }
    }
}

/// The phase of a Namespace says whether it is being deleted, and nothing else.
fn validate_status(new: &At<'_>, _: &Value, errors: &mut Errors) {
    let is_deleting = !new.value["metadata"]["deletionTimestamp"].is_null();
    let (expected, mark) = if is_deleting { ("Terminating", "not empty") } else { ("Active", "empty") };
    let status = new.field("status");
    let phase = status.field("phase");
    let phase = if phase.is_zero() { "Active" } else { phase.text() };
    if phase != expected {
        let detail = format!("may only be '{expected}' if `deletionTimestamp` is {mark}");
        errors.push(Error::invalid(&status.path.field("Phase"), &json!(phase), &detail));
    }
}

/// A Namespace carries its name as a label, so that selectors can find it.
fn defaults(object: &mut Fields) {
    if let Some(status) = inner(object, "status") {
        fill_zero(status, "phase", "Active");
    }
    let Some(metadata) = made(object, "metadata") else { return };
    let Some(name) = metadata.get("name").filter(|name| !is_zero(Some(name))).cloned() else { return };
    if let Some(labels) = made(metadata, "labels") {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

/// What an update through `/finalize` stores: the finalizers of the body.
fn finalize(stored: &Value, body: &Value) -> Value {
    let mut new = stored.clone();
    let finalizers = &body["spec"]["finalizers"];
    if let Some(spec) = new.as_object_mut().and_then(|fields| made(fields, "spec")) {
        if is_zero(Some(finalizers)) {
            spec.remove("finalizers");
        } else {
            spec.insert("finalizers".into(), finalizers.clone());
        }
    }
    new
}

/// A namespace waits for the namespace controller before it goes.
fn namespace_created(namespace: &mut Fields) {
    let Some(spec) = made(namespace, "spec") else { return };
    prepare::push_once(spec, "finalizers", "kubernetes");
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), read::text(object, "status.phase").into(), age::of(object, now).into()]
}

/// Warns of labels that ask for the Pod Security Standards, once for each mode whose labels are new: they are only kept here.
fn warn_unenforced(_: &Kind, write: &Write<'_>) -> Vec<String> {
    if !write.subresource.is_empty() {
        return Vec::new();
    }
    let label = |object: &Value, name: &str| object["metadata"]["labels"].get(name).cloned();
    let is_new = |name: &String| {
        let given = label(write.new, name);
        given.is_some() && given != write.old.and_then(|old| label(old, name))
    };
    let warning = |(mode, effect): (&str, &str)| {
        let both = [format!("{POD_SECURITY}/{mode}"), format!("{POD_SECURITY}/{mode}-version")];
        let named = both.into_iter().find(is_new)?;
        Some(format!("the label {named} is stored, but this server does not {effect}"))
    };
    POD_SECURITY_MODES.into_iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalize_changes_the_finalizers_only() {
        let stored = json!({"metadata": {"name": "n"}, "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"}});
        let new = finalize(&stored, &json!({"spec": {}, "status": {"phase": "Odd"}}));
        assert_eq!(new, json!({"metadata": {"name": "n"}, "spec": {}, "status": {"phase": "Active"}}));
    }
}
