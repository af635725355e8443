//! Defines the part of a Pod that the controllers need. It is a tenth of the size, so thousands of Pods in memory cost
//! little. Controllers create full Pods and cache these.
//!
//! **Invariant:** a partial Pod is never written back as a whole, so the fields it leaves out cannot be lost.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Serialize};

/// A Pod with only the fields that controllers need.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = "core::Pod")]
pub(crate) struct PartialPod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: PartialPodSpec,
    #[serde(default)]
    pub(crate) status: PartialPodStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialPodSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hostname: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subdomain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scheduler_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scheduling_gates: Vec<core::PodSchedulingGate>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) containers: Vec<PartialContainer>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tolerations: Vec<core::Toleration>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PartialContainer {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<PartialPort>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialPort {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(rename = "containerPort")]
    pub(crate) number: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialPodStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<PartialCondition>,
    #[serde(default, rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub(crate) pod_ip: Option<String>,
    #[serde(default, rename = "podIPs", skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod_ips: Vec<PartialPodAddress>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) container_statuses: Vec<PartialContainerStatus>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) init_container_statuses: Vec<PartialContainerStatus>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PartialPodAddress {
    #[serde(default)]
    pub(crate) ip: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialCondition {
    pub(crate) r#type: String,
    pub(crate) status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_transition_time: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialContainerStatus {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) restart_count: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<PartialContainerState>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PartialContainerState {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) terminated: Option<PartialTermination>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartialTermination {
    #[serde(default)]
    pub(crate) exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<Time>,
}

impl PartialPod {
    pub(crate) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or("Pending")
    }

    pub(crate) fn node(&self) -> &str {
        self.spec.node_name.as_deref().unwrap_or_default()
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    pub(crate) fn is_succeeded(&self) -> bool {
        self.phase() == "Succeeded"
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.phase() == "Failed"
    }

    /// Returns whether it will never run again.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_succeeded() || self.is_failed()
    }

    pub(crate) fn is_dying(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns whether it counts as a replica.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.is_dying()
    }

    /// Returns whether it is being deleted and has not finished.
    pub(crate) fn is_terminating(&self) -> bool {
        self.is_dying() && !self.is_finished()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready_condition().is_some()
    }

    /// Returns whether it failed only because its node was stopped.
    pub(crate) fn is_disrupted_by_node(&self) -> bool {
        self.status.conditions.iter().any(|one| {
            one.r#type == "DisruptionTarget"
                && one.status == "True"
                && one.reason.as_deref() == Some("TerminationByKubelet")
        })
    }

    /// Returns when it became ready, according to its status.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        self.ready_condition()?.last_transition_time.as_ref().map(|time| time.0)
    }

    fn ready_condition(&self) -> Option<&PartialCondition> {
        self.status.conditions.iter().find(|one| one.r#type == "Ready" && one.status == "True")
    }

    /// Returns the time until it counts as available: zero if it already does, `None` if it is not ready.
    pub(crate) fn available_in(&self, min_ready: Duration, now: Timestamp) -> Option<Duration> {
        let ready = self.ready_condition()?;
        if min_ready.is_zero() {
            return Some(Duration::ZERO);
        }
        let since = ready.last_transition_time.as_ref()?.0;
        let age = now.duration_since(since).max(jiff::SignedDuration::ZERO).unsigned_abs();
        Some(min_ready.saturating_sub(age))
    }

    pub(crate) fn is_available(&self, min_ready: Duration, now: Timestamp) -> bool {
        self.available_in(min_ready, now) == Some(Duration::ZERO)
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// Returns the restarts of the container that has restarted most often.
    pub(crate) fn restarts_max(&self) -> i32 {
        self.status.container_statuses.iter().map(|one| one.restart_count).max().unwrap_or_default()
    }
}

/// The index of Pods by namespace. The endpoints controller declares it for all controllers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodsInNamespace(pub(crate) String);

impl PodsInNamespace {
    /// Returns the index key for the object's namespace.
    pub(crate) fn of(meta: &ObjectMeta) -> Self {
        Self(meta.namespace.clone().unwrap_or_default())
    }
}

/// Returns the shortest wait until another of these Pods becomes available.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a PartialPod>,
    min_ready: Duration,
    now: Timestamp,
) -> Option<Duration> {
    let waits = pods.into_iter().filter_map(|pod| pod.available_in(min_ready, now));
    waits.filter(|wait| !wait.is_zero()).min()
}

/// Returns `minReadySeconds` as a duration.
pub(crate) fn min_ready(seconds: Option<i32>) -> Duration {
    Duration::from_secs(u64::try_from(seconds.unwrap_or_default()).unwrap_or_default())
}
