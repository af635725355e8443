//! Long-running workloads: the kinds of `apps`, one file each.

pub(crate) mod controller_revision;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod replica_set;
pub(crate) mod stateful_set;

use crate::resource::declaration::BuiltInKind;

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &controller_revision::CONTROLLER_REVISION,
    &daemon_set::DAEMON_SET,
    &deployment::DEPLOYMENT,
    &replica_set::REPLICA_SET,
    &stateful_set::STATEFUL_SET,
];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn workloads_print_what_is_there_and_what_is_wanted() {
        let object = json!({
            "metadata": {"name": "web", "creationTimestamp": "2020-01-01T00:00:00Z", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true}]},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": [
                {"name": "a", "image": "x:1"}, {"name": "b", "image": "y"}]}}},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1, "replicas": 3}});
        let now = "2020-01-01T03:00:00Z".parse().expect("a time");
        let printed = Value::from(crate::kinds::apps::deployment::cells(&object, now));
        assert_eq!(printed, json!(["web", "1/3", 2, 1, "3h", "a,b", "x:1,y", "app=web"]));
        assert_eq!(
            Value::from(crate::kinds::apps::replica_set::cells(&object, now)),
            json!(["web", 3, 3, 1, "3h", "a,b", "x:1,y", "app=web"])
        );
        assert_eq!(
            Value::from(crate::kinds::apps::stateful_set::cells(&object, now)),
            json!(["web", "1/3", "3h", "a,b", "x:1,y"])
        );
        assert_eq!(
            Value::from(crate::kinds::apps::controller_revision::cells(&object, now)),
            json!(["web", "statefulset.apps/s", 0, "3h"])
        );
    }
}
