//! The subresources of Pods bind a Pod to a node, add ephemeral containers and resize containers.

use homeostat_core::Clock;
use serde_json::{Value, json};

use crate::field::{Error, Errors, FieldPath};
use crate::object::fill::{JsonObject, first_by_name, is_zero, object_or_insert};
use crate::object::read;
use crate::resource::prepare::{kubernetes_now, restore_stored_value};
use crate::status::{ResourceName, Status};

/// Returns the Pod after `pods/binding`: it is assigned to a node, which happens only once.
pub fn bind(stored: &Value, binding: &Value, clock: &Clock) -> Result<Value, Status> {
    let name = read::string_at(&stored["metadata"], "name");
    check_seen(stored, binding, name)?;
    let refused =
        |why: &str| Err(Status::conflict(&ResourceName { group: "", resource: "pods/binding", name }, why));
    let node = read::string_at(&binding["target"], "name");
    let before = read::string_at(&stored["spec"], "nodeName");
    if !stored["metadata"]["deletionTimestamp"].is_null() {
        return refused(&format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    if !before.is_empty() {
        return refused(&format!("pod {name} is already assigned to node {before:?}"));
    }
    if !read::list_at(&stored["spec"], "schedulingGates").is_empty() {
        return refused(&format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut pod = stored.clone();
    if let Some(fields) = pod.as_object_mut() {
        assign(fields, binding, node, clock);
    }
    Ok(pod)
}

/// Requires the stored Pod to be the one that the Binding refers to: a Binding may state its uid and its
/// resourceVersion.
fn check_seen(stored: &Value, binding: &Value, name: &str) -> Result<(), Status> {
    let (stored, asked) = (&stored["metadata"], &binding["metadata"]);
    for (field, what) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let (asked, actual) = (read::string_at(asked, field), read::string_at(stored, field));
        if !asked.is_empty() && asked != actual {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/pods/{}/{name}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: {what} in precondition: {asked}, {what} in object meta: \
                 {actual}",
                read::string_at(stored, "namespace")
            );
            return Err(Status::conflict(&ResourceName { group: "", resource: "pods", name }, &why));
        }
    }
    Ok(())
}

/// Requires the fields that a Binding needs. Kubernetes answers 500 here.
pub fn check_binding(binding: &Value) -> Result<(), Status> {
    let (root, target) = (FieldPath::Root, &binding["target"]);
    let place = root.field("target");
    let mut errors = Errors::new();
    if !matches!(read::string_at(target, "kind"), "" | "Node") {
        errors.push(Error::not_supported(&place.field("kind"), &target["kind"], &["Node", "<empty>"]));
    }
    if read::string_at(target, "name").is_empty() {
        errors.push(Error::required(&place.field("name"), ""));
    }
    let texts = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    match &*texts {
        [] => Ok(()),
        [one] => Err(Status::unclassified(one)),
        all => Err(Status::unclassified(format!("[{}]", all.join(", ")))),
    }
}

fn assign(pod: &mut JsonObject, binding: &Value, node: &str, clock: &Clock) {
    if let Some(spec) = object_or_insert(pod, "spec") {
        spec.insert("nodeName".into(), json!(node));
    }
    for name in ["annotations", "labels"] {
        let Some(added) = binding["metadata"][name].as_object().filter(|added| !added.is_empty()) else {
            continue;
        };
        if let Some(present) =
            object_or_insert(pod, "metadata").and_then(|metadata| object_or_insert(metadata, name))
        {
            present.extend(added.clone());
        }
    }
    let Some(status) = object_or_insert(pod, "status") else { return };
    status.remove("nominatedNodeName");
    set_condition(status, json!({"type": "PodScheduled", "status": "True"}), clock);
}

/// Sets a condition of a Pod, replacing any condition of the same type; keeps its transition time if the status does
/// not change.
pub(super) fn set_condition(status: &mut JsonObject, mut condition: Value, clock: &Clock) {
    condition["lastProbeTime"] = Value::Null;
    condition["lastTransitionTime"] = kubernetes_now(clock);
    if !status.get("conditions").is_some_and(Value::is_array) {
        status.insert("conditions".into(), json!([]));
    }
    let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) else { return };
    match conditions.iter_mut().find(|one| one["type"] == condition["type"]) {
        Some(before) => {
            if before["status"] == condition["status"] {
                condition["lastTransitionTime"] = before["lastTransitionTime"].take();
            }
            *before = condition;
        }
        None => conditions.push(condition),
    }
}

/// Returns the Pod after `pods/ephemeralcontainers`: only the ephemeral containers come from the body.
pub fn ephemeral_containers(stored: &Value, body: &Value) -> Value {
    let mut pod = stored.clone();
    let wanted = &body["spec"]["ephemeralContainers"];
    if let Some(spec) = pod.as_object_mut().and_then(|fields| object_or_insert(fields, "spec")) {
        if is_zero(Some(wanted)) {
            spec.remove("ephemeralContainers");
        } else {
            spec.insert("ephemeralContainers".into(), wanted.clone());
        }
    }
    pod
}

/// Returns the Pod after `pods/resize`: the resources and resize policies come from the body, container by container.
pub fn resize(stored: &Value, body: &Value) -> Value {
    let mut pod = stored.clone();
    for list in ["containers", "initContainers"] {
        let wanted = first_by_name(read::list_at(&body["spec"], list));
        let present = pod["spec"].get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for container in present.filter_map(Value::as_object_mut) {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(source) = wanted.get(name) {
                restore_stored_value(container, source, "resources");
                restore_stored_value(container, source, "resizePolicy");
            }
        }
    }
    if let Some(spec) = pod.as_object_mut().and_then(|fields| object_or_insert(fields, "spec")) {
        restore_stored_value(spec, &body["spec"], "resources");
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_bound_once() {
        let stored = json!({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}});
        let binding =
            json!({"metadata": {"annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}});
        let clock = Clock::system();
        let pod = bind(&stored, &binding, &clock).expect("free");
        assert_eq!(pod["spec"]["nodeName"], "n");
        assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
        assert_eq!(pod["status"]["conditions"][0]["status"], "True");
        let refusal = bind(&pod, &binding, &clock).expect_err("bound already");
        assert_eq!((refusal.code, &*refusal.reason), (409, "Conflict"));
        assert!(refusal.message.ends_with("pod p is already assigned to node \"n\""), "{}", refusal.message);
    }

    #[test]
    fn a_binding_means_one_pod_and_one_node() {
        let stored = json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"}});
        let check = |metadata: Value, code: u16| {
            let binding = json!({"metadata": metadata, "target": {"name": "n"}});
            let outcome = bind(&stored, &binding, &Clock::system());
            assert_eq!(outcome.map_or_else(|refusal| refusal.code, |_| 201), code, "{binding}");
        };
        check(json!({"uid": "u", "resourceVersion": "7"}), 201);
        check(json!({"uid": "other"}), 409);
        check(json!({"resourceVersion": "6"}), 409);
        let said =
            |target: Value| check_binding(&json!({"target": target})).map_err(|refusal| refusal.message);
        assert_eq!(said(json!({"name": "n"})), Ok(()));
        assert_eq!(said(json!({"kind": "Node", "name": "n"})), Ok(()));
        assert_eq!(said(json!({})), Err("target.name: Required value".into()));
        let unsupported = "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"";
        assert_eq!(said(json!({"kind": "Pod", "name": "n"})), Err(unsupported.into()));
    }

    #[test]
    fn a_resize_touches_resources_only() {
        let stored = json!({"spec": {"containers": [{"name": "a", "image": "x", "resources": {}}]}});
        let body = json!({"spec": {"containers": [{"name": "a", "image": "y", "resources": {"limits": {"cpu": "1"}}}]}});
        let pod = resize(&stored, &body);
        assert_eq!(
            pod["spec"]["containers"],
            json!([{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}}])
        );
    }
}
