//! The built-in controllers: Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, endpoints, disruption
//! budgets, Nodes that fall silent, Pods whose Node is gone and Pods that find none.
//!
//! Ordinary controllers on the runtime: they know a `kube::Client` and nothing else, and behave as Kubernetes' own do,
//! down to reasons, events and names, so that kubectl and people find what they expect. One file or folder per kind;
//! decisions are in modules without I/O, `mod.rs` of each kind only moves objects.
//!
//! Shared by several kinds: `pod` (a Pod in part), `claim` (adopt and release), `crew` (make and remove Pods), `rank` (who
//! goes first), `template` (from template to Pod), `revisions` (former templates), `number` and `time` (as the API writes
//! them).

mod cron_job;
mod daemon_set;
mod deletion_order;
mod deployment;
mod disruption_budget;
mod endpoint_slice;
mod job;
mod node_health;
mod number;
mod ownership;
mod partial_pod;
mod pod_collector;
mod pod_control;
mod replica_set;
mod revisions;
mod stateful_set;
mod template;
mod time;
mod unscheduled;

use homeostat_runtime::Operator;

/// The field manager and source of events of these controllers.
const NAME: &str = "workloads.homeostat.dev";

/// All of them, ready to run on any server.
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
        .control(unscheduled::control());
    job::controls().into_iter().fold(operator, Operator::control)
}
