//! What a ReplicaSet's status says, from its Pods. Pure.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::Error;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::controllers::number::{count, nonzero};
use crate::controllers::partial_pod::Pod;
use crate::controllers::pod_control::said;
use crate::controllers::time::whole_second;

const FAILURE: &str = "ReplicaFailure";

/// Pods by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    active: i32,
    fully_labeled: i32,
    ready: i32,
    available: i32,
    terminating: i32,
}

impl PodCounts {
    pub(super) fn of(
        pods: &[Arc<Pod>],
        template: Option<&PodTemplateSpec>,
        min_ready: Duration,
        now: Timestamp,
    ) -> Self {
        let wanted = template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
        let is_fully_labeled = |pod: &Pod| {
            wanted.is_none_or(|wanted| wanted.iter().all(|(key, value)| pod.label(key) == Some(value)))
        };
        let active = || pods.iter().filter(|pod| pod.is_active());
        Self {
            active: count(active().count()),
            fully_labeled: count(active().filter(|pod| is_fully_labeled(pod)).count()),
            ready: count(active().filter(|pod| pod.is_ready()).count()),
            available: count(active().filter(|pod| pod.is_available(min_ready, now)).count()),
            terminating: count(pods.iter().filter(|pod| pod.is_terminating()).count()),
        }
    }

    pub(super) fn write(
        self,
        status: &mut ReplicaSetStatus,
        wanted: i32,
        failure: Option<&Error>,
        now: Timestamp,
    ) {
        status.replicas = self.active;
        status.fully_labeled_replicas = nonzero(self.fully_labeled);
        status.ready_replicas = nonzero(self.ready);
        status.available_replicas = nonzero(self.available);
        status.terminating_replicas = Some(self.terminating);
        let conditions = status.conditions.get_or_insert_default();
        let known = conditions.iter().any(|condition| condition.type_ == FAILURE);
        match failure {
            None => conditions.retain(|condition| condition.type_ != FAILURE),
            Some(error) if !known => conditions.push(ReplicaSetCondition {
                type_: FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(if self.active < wanted { "FailedCreate" } else { "FailedDelete" }.to_owned()),
                message: Some(said(error)),
                last_transition_time: Some(whole_second(now)),
            }),
            Some(_) => {}
        }
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}
