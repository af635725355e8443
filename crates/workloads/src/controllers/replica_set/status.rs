//! Computes a ReplicaSet's status from its Pods. This module is pure.

use std::sync::Arc;
use std::time::Duration;

use homeostat_runtime::Error;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::controllers::numbers::{as_count, omit_zero};
use crate::controllers::partial_pod::PartialPod;
use crate::controllers::pod_control::error_message;
use crate::controllers::time::whole_second;

const FAILURE: &str = "ReplicaFailure";

/// Numbers of Pods by state.
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
        pods: &[Arc<PartialPod>],
        template: Option<&PodTemplateSpec>,
        min_ready: Duration,
        now: Timestamp,
    ) -> Self {
        let wanted = template.and_then(|template| template.metadata.as_ref()?.labels.as_ref());
        let is_fully_labeled = |pod: &PartialPod| {
            wanted.is_none_or(|wanted| wanted.iter().all(|(key, value)| pod.label(key) == Some(value)))
        };
        let active = || pods.iter().filter(|pod| pod.is_active());
        Self {
            active: as_count(active().count()),
            fully_labeled: as_count(active().filter(|pod| is_fully_labeled(pod)).count()),
            ready: as_count(active().filter(|pod| pod.is_ready()).count()),
            available: as_count(active().filter(|pod| pod.is_available(min_ready, now)).count()),
            terminating: as_count(pods.iter().filter(|pod| pod.is_terminating()).count()),
        }
    }

    pub(super) fn write_to(
        self,
        status: &mut ReplicaSetStatus,
        wanted: i32,
        failure: Option<&Error>,
        now: Timestamp,
    ) {
        status.replicas = self.active;
        status.fully_labeled_replicas = omit_zero(self.fully_labeled);
        status.ready_replicas = omit_zero(self.ready);
        status.available_replicas = omit_zero(self.available);
        status.terminating_replicas = Some(self.terminating);
        let conditions = status.conditions.get_or_insert_default();
        let known = conditions.iter().any(|condition| condition.type_ == FAILURE);
        match failure {
            None => conditions.retain(|condition| condition.type_ != FAILURE),
            Some(error) if !known => conditions.push(ReplicaSetCondition {
                type_: FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(if self.active < wanted { "FailedCreate" } else { "FailedDelete" }.to_owned()),
                message: Some(error_message(error)),
                last_transition_time: Some(whole_second(now)),
            }),
            Some(_) => {}
        }
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}
