//! Workloads: Deployments, ReplicaSets, StatefulSets, DaemonSets and their revisions.

use jiff::Timestamp;
use serde_json::Value;

use super::super::{age, read, selector};
use super::containers;

const CONTAINERS: &str = "spec.template.spec.containers";

pub(crate) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, CONTAINERS);
    vec![
        read::name(object).into(),
        ready(object).into(),
        read::number(object, "status.updatedReplicas").into(),
        read::number(object, "status.availableReplicas").into(),
        age::of(object, now).into(),
        names,
        images,
        selector::bare(object, "spec.selector").into(),
    ]
}

pub(crate) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, CONTAINERS);
    vec![
        read::name(object).into(),
        read::number(object, "spec.replicas").into(),
        read::number(object, "status.replicas").into(),
        read::number(object, "status.readyReplicas").into(),
        age::of(object, now).into(),
        names,
        images,
        selector::selector(object, "spec.selector").into(),
    ]
}

pub(crate) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, CONTAINERS);
    vec![read::name(object).into(), ready(object).into(), age::of(object, now).into(), names, images]
}

pub(crate) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, CONTAINERS);
    vec![
        read::name(object).into(),
        read::number(object, "status.desiredNumberScheduled").into(),
        read::number(object, "status.currentNumberScheduled").into(),
        read::number(object, "status.numberReady").into(),
        read::number(object, "status.updatedNumberScheduled").into(),
        read::number(object, "status.numberAvailable").into(),
        selector::labels(object, "spec.template.spec.nodeSelector").into(),
        age::of(object, now).into(),
        names,
        images,
        selector::selector(object, "spec.selector").into(),
    ]
}

pub(crate) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = read::list(object, "metadata.ownerReferences");
    let controller = owners.iter().find(|owner| read::flag(owner, "controller"));
    vec![
        read::name(object).into(),
        controller.map_or_else(|| "<none>".to_owned(), qualified).into(),
        read::number(object, "revision").into(),
        age::of(object, now).into(),
    ]
}

/// `deployment.apps/web`.
fn qualified(owner: &Value) -> String {
    let kind = read::text(owner, "kind").to_lowercase();
    let group = read::text(owner, "apiVersion").split_once('/').map_or("", |(group, _)| group);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", read::text(owner, "name"))
}

fn ready(object: &Value) -> String {
    format!("{}/{}", read::number(object, "status.readyReplicas"), read::number(object, "spec.replicas"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workloads_print_what_is_there_and_what_is_wanted() {
        let object = json!({
            "metadata": {"name": "web", "creationTimestamp": "2020-01-01T00:00:00Z", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true}]},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": [
                {"name": "a", "image": "x:1"}, {"name": "b", "image": "y"}]}}},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1, "replicas": 3}});
        let now = "2020-01-01T03:00:00Z".parse().expect("a time");
        let printed = Value::from(deployment(&object, now));
        assert_eq!(printed, json!(["web", "1/3", 2, 1, "3h", "a,b", "x:1,y", "app=web"]));
        assert_eq!(
            Value::from(replica_set(&object, now)),
            json!(["web", 3, 3, 1, "3h", "a,b", "x:1,y", "app=web"])
        );
        assert_eq!(Value::from(stateful_set(&object, now)), json!(["web", "1/3", "3h", "a,b", "x:1,y"]));
        assert_eq!(
            Value::from(controller_revision(&object, now)),
            json!(["web", "statefulset.apps/s", 0, "3h"])
        );
    }
}
