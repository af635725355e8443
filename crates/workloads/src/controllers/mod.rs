//! The built-in controllers: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, endpoints, disruption
//! budgets, Nodes that stop reporting, Pods whose Node is gone, and Pods that no Node accepts.
//!
//! They are ordinary controllers on the runtime: they know a `kube::Client` and nothing else, and behave as Kubernetes'
//! own do, down to reasons, events and names, so that kubectl and people find what they expect. Each kind has one file
//! or folder. Decisions are made in modules without I/O; the `mod.rs` of a kind only reads and writes objects.
//!
//! Several kinds share `partial_pod` (the part of a Pod that controllers need), `ownership` (adopting and releasing
//! objects), `pod_control` (creating and deleting Pods), `deletion_order` (which Pods are deleted first),
//! `pod_template` (from a template to a Pod), `revisions` (former templates), `numbers` and `time` (the API's
//! notation).

mod cron_job;
mod daemon_set;
mod deletion_order;
mod deployment;
mod disruption_budget;
mod endpoint_slice;
mod job;
mod node_health;
mod numbers;
mod ownership;
mod partial_pod;
mod pod_collector;
mod pod_control;
mod pod_template;
mod replica_set;
mod revisions;
mod stateful_set;
mod time;
mod unscheduled_pods;

use homeostat_runtime::Operator;

/// The field manager of these controllers, and the source of their events.
const NAME: &str = "workloads.homeostat.dev";

/// Returns an operator with all of them, which runs on any server.
pub fn operator() -> Operator {
    let operator = Operator::new(NAME)
        .control(deployment::control())
        .control(replica_set::control())
        .control(stateful_set::control())
        .control(daemon_set::control())
        .control(cron_job::control())
        .control(endpoint_slice::control())
        .control(disruption_budget::control())
        .control(node_health::control())
        .control(pod_collector::control())
        .control(unscheduled_pods::control());
    job::controls().into_iter().fold(operator, Operator::control)
}
