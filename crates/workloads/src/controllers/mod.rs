//! Contains the built-in controllers: Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job,
//! CronJob, endpoints and their mirroring, disruption budgets, Nodes that stop reporting, Pods whose Node is gone or
//! has a taint they do not tolerate, finished Pods beyond a limit, and Pods that no Node accepts.
//!
//! They are ordinary controllers on the runtime: they see only a `kube::Client`, and behave like Kubernetes' own, down
//! to reasons, events and names, so that kubectl and users find what they expect. Each kind has one file or folder.
//! Decisions are made in modules without I/O; the `mod.rs` of a kind only reads and writes objects.
//!
//! Several kinds share `partial_pod` (the part of a Pod that controllers need), `ownership` (adopting and releasing
//! objects), `pod_control` (creating and deleting Pods), `deletion_order` (which Pods are deleted first),
//! `pod_template` (from a template to a Pod), `revisions` (former templates), `node_affinity` and `tolerations` (where
//! a Pod may run), `numbers` and `time` (the API's notation).

mod cron_job;
mod daemon_set;
mod deletion_order;
mod deployment;
mod disruption_budget;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod finished_pods;
mod job;
pub(crate) mod node_affinity;
mod node_health;
mod numbers;
mod ownership;
mod partial_pod;
mod pod_control;
mod pod_garbage_collector;
mod pod_template;
mod replica_set;
mod revisions;
mod stateful_set;
mod taint_eviction;
mod time;
pub(crate) mod tolerations;
mod unscheduled_pods;

use homeostat_runtime::Operator;

/// The field manager of these controllers, and the source of their events.
const NAME: &str = "workloads.homeostat.dev";

/// Returns an operator with all these controllers, which works with any server.
pub fn operator() -> Operator {
    operator_without_nodes()
        .control(node_health::control())
        .control(pod_garbage_collector::control())
        .control(finished_pods::control())
        .control(taint_eviction::control())
        .control(unscheduled_pods::control())
}

/// Returns an operator without the controllers that assess Nodes. It is for plans, in which no Node reports.
pub fn operator_without_nodes() -> Operator {
    let operator = Operator::new(NAME)
        .control(deployment::control())
        .control(stateful_set::control())
        .control(daemon_set::control())
        .control(cron_job::control())
        .control(endpoint_slice::control())
        .control(endpoint_slice_mirroring::control())
        .control(disruption_budget::control());
    replica_set::controls().into_iter().chain(job::controls()).fold(operator, Operator::control)
}
