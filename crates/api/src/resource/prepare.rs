//! Sets the fields that the server decides before an object is validated and stored: it clears or keeps statuses and
//! generates selectors.
//!
//! **Invariant:** this runs after the defaults and before validation; fields that a client must not set are overwritten
//! here, so validation never sees them. Metadata that every kind has (uid, times, generation) is set by the generic
//! verbs.

use homeostat_core::Clock;
use serde_json::{Value, json};

use super::Resource;
use super::declaration::InitialStatus;
use super::strategy::strategy;
use crate::object::fill::{JsonObject, object_or_insert};
use crate::status::Status;
use crate::user_identity::Identity;

/// The context that preparation needs besides the object.
pub struct PrepareContext<'a> {
    /// The clock.
    pub clock: &'a Clock,
    /// The uid the new object gets.
    pub uid: &'a str,
    /// The user that sends the request.
    pub identity: &'a Identity,
}

/// Moves the values of write-only fields into the fields they stand for, before ownership is recorded.
pub fn fold_aliases(resource: &Resource, object: &mut Value) {
    let fold = resource.declaration().and_then(|kind| kind.fold_aliases);
    if let (Some(fold), Some(fields)) = (fold, object.as_object_mut()) {
        fold(fields);
    }
}

/// Prepares a new object of a kind.
pub fn prepare_for_create(
    resource: &Resource,
    object: &mut Value,
    with: &PrepareContext<'_>,
) -> Result<(), Status> {
    let Some(fields) = object.as_object_mut() else { return Ok(()) };
    clear_status(resource, fields);
    resource
        .declaration()
        .and_then(|kind| kind.prepare_create)
        .map_or(Ok(()), |prepare| prepare(resource, fields, with))
}

/// Clears the status of a new object.
fn clear_status(resource: &Resource, fields: &mut JsonObject) {
    if strategy(resource).reset_on_status.is_empty() {
        return;
    }
    match resource.declaration().map(|kind| kind.first_status) {
        None => drop(fields.remove("status")),
        Some(InitialStatus::AsSent) => {}
        Some(InitialStatus::Fixed(status)) => drop(fields.insert("status".into(), status())),
    }
}

/// Prepares the update of an object through its main endpoint.
pub fn prepare_for_update(resource: &Resource, new: &mut Value, old: &Value) {
    let Some(fields) = new.as_object_mut() else { return };
    for path in strategy(resource).reset_on_main {
        restore_stored_value(fields, old, path);
    }
    if let Some(prepare) = resource.declaration().and_then(|kind| kind.prepare_update) {
        prepare(fields, old);
    }
}

/// Restores the stored value at a dotted path.
pub(crate) fn restore_stored_value(fields: &mut JsonObject, old: &Value, path: &str) {
    let (parents, name) = path.rsplit_once('.').map_or(("", path), |(parents, name)| (parents, name));
    let mut target = fields;
    let mut source = old;
    for parent in parents.split('.').filter(|parent| !parent.is_empty()) {
        source = source.get(parent).unwrap_or(&Value::Null);
        let Some(inner) = object_or_insert(target, parent) else { return };
        target = inner;
    }
    match source.get(name) {
        Some(value) => target.insert(name.into(), value.clone()),
        None => target.remove(name),
    };
}

/// Returns the current time as Kubernetes writes it: whole seconds, UTC.
pub(crate) fn kubernetes_now(clock: &Clock) -> Value {
    clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

pub(crate) fn push_once(parent: &mut JsonObject, list: &str, item: &str) {
    match parent.get_mut(list) {
        Some(Value::Array(items)) => {
            if items.iter().all(|one| one != item) {
                items.push(item.into());
            }
        }
        _ => {
            parent.insert(list.into(), json!([item]));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(group: &str, kind: &str) -> Resource {
        let found =
            crate::kinds::built_in_rows().into_iter().find(|row| &*row.group == group && &*row.kind == kind);
        found.expect("served")
    }

    fn created(group: &str, kind: &str, mut object: Value) -> Result<Value, Status> {
        let identity = Identity::admin();
        let clock = Clock::system();
        let with = PrepareContext { clock: &clock, uid: "u-1", identity: &identity };
        crate::kinds::defaults::default(crate::kinds::declared(group, "v1", kind), &mut object);
        prepare_for_create(&row(group, kind), &mut object, &with).map(|()| object)
    }

    #[test]
    fn a_pod_starts_pending() {
        let pod = created(
            "",
            "Pod",
            json!({"metadata": {"name": "p"}, "status": {"phase": "Running"},
                "spec": {"containers": [{"name": "a", "image": "x:1"}]}}),
        )
        .expect("accepted");
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
    }

    #[test]
    fn quality_of_service_follows_the_resources() {
        let rows = [
            (json!({"limits": {"cpu": 2, "memory": "1e9"}}), "Guaranteed"),
            (json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}), "Burstable"),
            (json!({"requests": {"example.test/dev": "1"}}), "BestEffort"),
            (json!({"limits": {"cpu": "1"}}), "Burstable"),
        ];
        for (resources, expected) in rows {
            let pod = json!({"spec": {"containers": [{"name": "a", "image": "x", "resources": resources}]}});
            let pod = created("", "Pod", pod).expect("accepted");
            assert_eq!(pod["status"]["qosClass"], expected, "{resources}");
        }
    }

    #[test]
    fn namespaces_secrets_and_jobs_are_completed() {
        let namespace = created("", "Namespace", json!({"metadata": {"name": "n"}})).expect("accepted");
        assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(namespace["status"], json!({"phase": "Active"}));
        assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "n");

        let secret = json!({"data": {"pw": "c2VjcmV0"}, "stringData": {"user": "admin"}});
        let secret = created("", "Secret", secret).expect("accepted");
        assert_eq!(secret, json!({"data": {"pw": "c2VjcmV0", "user": "YWRtaW4="}, "type": "Opaque"}));

        let job = json!({"metadata": {"name": "once"}, "spec": {"template": {"spec": {"containers": []}}}});
        let job = created("batch", "Job", job).expect("accepted");
        let labels = json!({"batch.kubernetes.io/controller-uid": "u-1", "batch.kubernetes.io/job-name": "once",
            "controller-uid": "u-1", "job-name": "once"});
        assert_eq!(job["metadata"]["labels"], labels);
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({"batch.kubernetes.io/controller-uid": "u-1"})
        );
    }

    #[test]
    fn the_main_endpoint_keeps_what_is_not_its_own() {
        let old = json!({"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
        let mut new =
            json!({"metadata": {"name": "x"}, "spec": {"finalizers": []}, "status": {"phase": "Odd"}});
        prepare_for_update(&row("", "Namespace"), &mut new, &old);
        assert_eq!(new, old);
    }
}
