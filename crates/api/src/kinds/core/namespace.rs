//! Namespace: a scope for the names of objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::names::NameRule;
use crate::object::fill::{JsonObject, is_zero, object_mut, object_or_insert, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::{
    BuiltInKind, DeletionRules, InitialStatus, ObjectWrite, SubresourceDeclaration,
};
use crate::resource::prepare;
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::{PLAIN, SPEC};
use crate::resource::value_at::{Errors, ValueAt};

/// The labels that request Pod Security Standards in the audit log, which this server does not keep.
const AUDITED: [&str; 2] = ["pod-security.kubernetes.io/audit", "pod-security.kubernetes.io/audit-version"];

/// A scope for the names of objects.
pub static NAMESPACE: BuiltInKind = BuiltInKind {
    verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    short_names: &["ns"],
    subresources: &[
        SubresourceDeclaration::own("finalize", &["update"])
            .merged_by(|_, stored, body, _| finalize(stored, &body))
            .validated_by(|new, _, errors| validate(new, errors)),
        STATUS,
    ],
    strategy: PLAIN.returned().named(NameRule::Label).with_status(SPEC),
    defaults: Some(defaults),
    first_status: InitialStatus::Fixed(|| json!({"phase": "Active"})),
    prepare_create: Some(|_, fields, _| {
        namespace_created(fields);
        Ok(())
    }),
    prepare_update: Some(|fields, old| prepare::restore_stored_value(fields, old, "spec.finalizers")),
    validate: Some(validate),
    validate_status: Some(validate_status),
    warn_unenforced: Some(warn_unenforced),
    deletion: DeletionRules {
        begin: None,
        mark: Some(|namespace| namespace["status"]["phase"] = json!("Terminating")),
        // A namespace's contents delay its deletion, not a grace period.
        has_grace_period: false,
        is_held: Some(|namespace| {
            namespace["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
        }),
    },
    columns: &[Column::NAME, Column::text("Status"), Column::text("Age")],
    cells: Some(cells),
    selectable: SelectableFields::fields(&[("status.phase", AbsentValue::Empty)]).without_namespace(),
    ..BuiltInKind::cluster_scoped("", "v1", "namespaces", "Namespace")
};

/// Validates a Namespace: its finalizers are qualified names.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    for finalizer in object.field("spec").field("finalizers").items() {
        finalizer.must_pass(names::qualified, errors);
        if !finalizer.text().contains('/') && finalizer.text() != "kubernetes" {
            finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified", errors);
        }
    }
}

/// Requires the phase of a Namespace to match whether it is being deleted.
fn validate_status(new: &ValueAt<'_>, _: &Value, errors: &mut Errors) {
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

/// Adds the name of a Namespace as a label, so that selectors can find it.
fn defaults(object: &mut JsonObject) {
    if let Some(status) = object_mut(object, "status") {
        set_if_zero(status, "phase", "Active");
    }
    let Some(metadata) = object_or_insert(object, "metadata") else { return };
    let Some(name) = metadata.get("name").filter(|name| !is_zero(Some(name))).cloned() else { return };
    if let Some(labels) = object_or_insert(metadata, "labels") {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

/// Returns the object that an update through `/finalize` stores: the stored object with the finalizers from the body.
fn finalize(stored: &Value, body: &Value) -> Value {
    let mut new = stored.clone();
    let finalizers = &body["spec"]["finalizers"];
    if let Some(spec) = new.as_object_mut().and_then(|fields| object_or_insert(fields, "spec")) {
        if is_zero(Some(finalizers)) {
            spec.remove("finalizers");
        } else {
            spec.insert("finalizers".into(), finalizers.clone());
        }
    }
    new
}

/// Adds the finalizer of the namespace controller.
fn namespace_created(namespace: &mut JsonObject) {
    let Some(spec) = object_or_insert(namespace, "spec") else { return };
    prepare::push_once(spec, "finalizers", "kubernetes");
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::string_at(object, "status.phase").into(),
        age::age_of_object(object, now).into(),
    ]
}

/// Returns a warning about a new label that has no effect on a server without an audit log.
fn warn_unenforced(_: &BuiltInKind, write: &ObjectWrite<'_>) -> Vec<String> {
    if write.has_audit_log {
        return Vec::new();
    }
    let label = |object: &Value, name: &str| object["metadata"]["labels"].get(name).cloned();
    let is_new = |name: &&str| {
        let given = label(write.new, name);
        given.is_some() && given != write.old.and_then(|old| label(old, name))
    };
    let new = AUDITED.into_iter().find(|name| write.subresource.is_empty() && is_new(name));
    let warning = |name| {
        format!(
            "the label {name} is stored, but this server does not act on it: it was started without an audit log"
        )
    };
    new.map(warning).into_iter().collect()
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
