//! The endpoints below an object: pure functions from the stored object and the body to the new object.
//!
//! **Invariant:** a subresource changes only its own part; the rest comes from the stored object. The generic verbs
//! handle preconditions, managed fields and the write itself.

mod eviction;
mod pod;
mod scale;

use std::collections::HashMap;

use homeostat_core::Clock;
use serde_json::{Value, json};

use crate::object::fill::{JsonObject, object_or_insert};
use crate::object::read;
use crate::resource::Resource;
use crate::resource::declaration::{CHANGE, SubresourceDeclaration};
use crate::resource::prepare::{kubernetes_now, restore_stored_value};
use crate::resource::strategy::strategy;

pub use eviction::{EvictionCost, cost, note_eviction, unobserved};
pub use pod::{bind, check_binding, ephemeral_containers, resize};
pub use scale::{apply_scale, scale_of, validate_scale, validate_scaled};

/// The status of an object.
pub(crate) const STATUS: SubresourceDeclaration =
    SubresourceDeclaration::own("status", CHANGE).merged_by(status);
/// The number of replicas of an object.
pub(crate) const SCALE: SubresourceDeclaration =
    SubresourceDeclaration::with_body("scale", ("autoscaling", "v1", "Scale"), CHANGE).changing_content();

/// Returns the object that an update through `/status` stores: the body, with everything that the status endpoint does
/// not own replaced by the stored values.
pub fn status(resource: &Resource, stored: &Value, body: Value, clock: &Clock) -> Value {
    if resource.is_custom() {
        return status_of_custom(stored, body);
    }
    let mut new = body;
    let Some(fields) = new.as_object_mut() else { return new };
    for path in strategy(resource).reset_on_status {
        match *path {
            "metadata" => keep_metadata(fields, stored),
            // Approval has its own endpoint; the status endpoint owns the other conditions.
            "status.conditions" => keep_decisions(fields, stored, clock),
            path => restore_stored_value(fields, stored, path),
        }
    }
    if let Some(prepare) = resource.declaration().and_then(|kind| kind.prepare_status) {
        prepare(fields, stored, clock);
    }
    new
}

/// Returns the stored object with the status from the body. For custom kinds nothing else changes; a body without a
/// status removes it.
fn status_of_custom(stored: &Value, mut body: Value) -> Value {
    let mut new = stored.clone();
    let Some(fields) = new.as_object_mut() else { return new };
    match body.get_mut("status").map(Value::take) {
        Some(status) => fields.insert("status".into(), status),
        None => fields.remove("status"),
    };
    if let (Some(managed), Some(metadata)) =
        (body["metadata"].get("managedFields"), object_or_insert(fields, "metadata"))
    {
        metadata.insert("managedFields".into(), managed.clone());
    }
    new
}

/// Restores all metadata except managedFields.
fn keep_metadata(fields: &mut JsonObject, stored: &Value) {
    let managed = fields.get("metadata").and_then(|metadata| metadata.get("managedFields")).cloned();
    restore_stored_value(fields, stored, "metadata");
    if let (Some(managed), Some(metadata)) = (managed, object_or_insert(fields, "metadata")) {
        metadata.insert("managedFields".into(), managed);
    }
}

/// Keeps stored approvals and denials if their number is unchanged, which validation then checks; fills in the times
/// of new conditions.
fn keep_decisions(fields: &mut JsonObject, stored: &Value, clock: &Clock) {
    let old = stored["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(status) = object_or_insert(fields, "status") else { return };
    let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    for kind in ["Approved", "Denied"] {
        let is_kind = |condition: &&Value| read::string_at(condition, "type") == kind;
        let kept = old.iter().filter(is_kind).collect::<Vec<_>>();
        if kept.len() == conditions.iter().filter(is_kind).count() {
            let said = conditions.iter_mut().filter(|condition| read::string_at(condition, "type") == kind);
            said.zip(kept).for_each(|(said, kept)| said.clone_from(kept));
        }
    }
    set_conditions(status, old, conditions, clock);
}

fn set_conditions(status: &mut JsonObject, old: &[Value], mut conditions: Vec<Value>, clock: &Clock) {
    if conditions.is_empty() {
        status.remove("conditions");
        return;
    }
    let identity = |one: &Value| (one["type"].clone(), one["status"].clone());
    let before: HashMap<_, _> = old.iter().rev().map(|one| (identity(one), one)).collect();
    for condition in &mut conditions {
        let since = before
            .get(&identity(condition))
            .map(|one| one["lastTransitionTime"].clone())
            .filter(|time| !time.is_null());
        if condition["lastUpdateTime"].is_null() {
            condition["lastUpdateTime"] = kubernetes_now(clock);
        }
        if condition["lastTransitionTime"].is_null() {
            condition["lastTransitionTime"] = since.unwrap_or_else(|| kubernetes_now(clock));
        }
    }
    status.insert("conditions".into(), Value::Array(conditions));
}

/// Returns the object that an update through a certificate signing request's `/approval` stores: with the metadata and
/// conditions from the body.
pub fn approval(stored: &Value, body: &Value, clock: &Clock) -> Value {
    let mut new = stored.clone();
    new["metadata"] = body["metadata"].clone();
    let old = stored["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = body["status"]["conditions"].as_array().cloned().unwrap_or_default();
    if let Some(status) = new.as_object_mut().and_then(|fields| object_or_insert(fields, "status")) {
        set_conditions(status, old, said, clock);
    }
    new
}

/// Returns the response from endpoints that only perform an action: a Status that reports success.
pub fn done() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, kind: &str) -> Resource {
        let found =
            crate::kinds::built_in_rows().into_iter().find(|row| &*row.group == group && &*row.kind == kind);
        found.expect("served")
    }

    #[test]
    fn the_status_endpoint_takes_the_status_only() {
        let stored = json!({"metadata": {"name": "p", "ownerReferences": [1]}, "spec": {"a": 1},
            "status": {"phase": "Pending", "qosClass": "BestEffort"}});
        let body = json!({"metadata": {"name": "p", "labels": {"x": "y"}}, "spec": {"a": 2},
            "status": {"phase": "Running"}});
        let new = status(&row("", "Pod"), &stored, body, &Clock::system());
        assert_eq!(
            new,
            json!({"metadata": {"name": "p", "labels": {"x": "y"}, "ownerReferences": [1]}, "spec": {"a": 1},
                "status": {"phase": "Running", "qosClass": "BestEffort"}})
        );
    }

    #[test]
    fn labels_of_a_deployment_do_not_change_through_status() {
        let stored = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}});
        let body =
            json!({"metadata": {"labels": {"a": "c"}}, "spec": {"replicas": 5}, "status": {"replicas": 1}});
        let new = status(&row("apps", "Deployment"), &stored, body, &Clock::system());
        assert_eq!(new["metadata"], stored["metadata"]);
        assert_eq!(new["spec"], stored["spec"]);
        assert_eq!(new["status"], json!({"replicas": 1}));
    }

    #[test]
    fn approval_keeps_the_certificate_and_stamps_conditions() {
        let stored = json!({"spec": {"a": 1}, "status": {"certificate": "x"}});
        let body =
            json!({"spec": {"a": 2}, "status": {"conditions": [{"type": "Approved", "status": "True"}]}});
        let new = approval(&stored, &body, &Clock::system());
        assert_eq!(new["spec"], stored["spec"]);
        assert_eq!(new["status"]["certificate"], "x");
        assert!(new["status"]["conditions"][0]["lastTransitionTime"].is_string());
    }
}
