//! Abstracts over the kinds that want a number of Pods: a ReplicaSet, and the older ReplicationController, which says
//! the same with different types. This module is pure.

use std::borrow::Cow;

use homeostat_runtime::Kind;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A kind that can be handled as a ReplicaSet.
pub(super) trait ReplicaOwner: Kind {
    /// The status of the kind.
    type Status: Serialize + DeserializeOwned + Send;

    /// Returns the equivalent ReplicaSet.
    fn as_replica_set(&self) -> Cow<'_, ReplicaSet>;

    /// Turns the status of that ReplicaSet into the kind's own.
    fn own_status(status: ReplicaSetStatus) -> Self::Status;
}

impl ReplicaOwner for ReplicaSet {
    type Status = ReplicaSetStatus;

    fn as_replica_set(&self) -> Cow<'_, ReplicaSet> {
        Cow::Borrowed(self)
    }

    fn own_status(status: ReplicaSetStatus) -> ReplicaSetStatus {
        status
    }
}

impl ReplicaOwner for ReplicationController {
    type Status = ReplicationControllerStatus;

    fn as_replica_set(&self) -> Cow<'_, ReplicaSet> {
        let spec = self.spec.as_ref().map(|spec| ReplicaSetSpec {
            min_ready_seconds: spec.min_ready_seconds,
            replicas: spec.replicas,
            selector: LabelSelector { match_labels: spec.selector.clone(), match_expressions: None },
            template: spec.template.clone(),
        });
        // A selector without labels would select every Pod of the namespace. The server refuses it.
        let spec = spec.filter(|spec| spec.selector.match_labels.as_ref().is_some_and(|all| !all.is_empty()));
        let status = self.status.clone().map(replica_set_status);
        Cow::Owned(ReplicaSet { metadata: self.metadata.clone(), spec, status })
    }

    fn own_status(status: ReplicaSetStatus) -> ReplicationControllerStatus {
        let conditions = status.conditions.map(|all| all.into_iter().map(own_condition).collect());
        ReplicationControllerStatus {
            available_replicas: status.available_replicas,
            conditions,
            fully_labeled_replicas: status.fully_labeled_replicas,
            observed_generation: status.observed_generation,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
        }
    }
}

fn replica_set_status(status: ReplicationControllerStatus) -> ReplicaSetStatus {
    let conditions = status.conditions.map(|all| all.into_iter().map(replica_set_condition).collect());
    ReplicaSetStatus {
        available_replicas: status.available_replicas,
        conditions,
        fully_labeled_replicas: status.fully_labeled_replicas,
        observed_generation: status.observed_generation,
        ready_replicas: status.ready_replicas,
        replicas: status.replicas,
        terminating_replicas: None,
    }
}

fn replica_set_condition(condition: ReplicationControllerCondition) -> ReplicaSetCondition {
    let ReplicationControllerCondition { last_transition_time, message, reason, status, type_ } = condition;
    ReplicaSetCondition { last_transition_time, message, reason, status, type_ }
}

fn own_condition(condition: ReplicaSetCondition) -> ReplicationControllerCondition {
    let ReplicaSetCondition { last_transition_time, message, reason, status, type_ } = condition;
    ReplicationControllerCondition { last_transition_time, message, reason, status, type_ }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replication_controller_is_a_replica_set() {
        let status = json!({"replicas": 2, "readyReplicas": 1, "observedGeneration": 3,
            "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]});
        let owner = json!({"metadata": {"name": "web"}, "status": status,
            "spec": {"replicas": 2, "selector": {"app": "web"}, "template": {}, "minReadySeconds": 5}});
        let owner: ReplicationController = serde_json::from_value(owner).unwrap();
        let set = owner.as_replica_set().into_owned();
        let expected = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {}, "minReadySeconds": 5});
        assert_eq!(json!(set.spec), expected);
        assert_eq!(json!(ReplicationController::own_status(set.status.unwrap())), status);
    }

    #[test]
    fn one_without_a_selector_selects_nothing() {
        let owner: ReplicationController =
            serde_json::from_value(json!({"metadata": {}, "spec": {"selector": {}}})).unwrap();
        assert!(owner.as_replica_set().spec.is_none());
    }
}
