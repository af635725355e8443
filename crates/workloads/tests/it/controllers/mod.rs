//! The built-in controllers, with a kubelet that only pretends.

#![expect(clippy::needless_pass_by_value, reason = "rows should read as sentences")]

mod cron_jobs;
mod daemon_sets;
mod deployments;
mod disruption_budgets;
mod endpoint_slices;
mod jobs;
mod kubelet;
mod lab;
mod nodes;
mod replica_sets;
mod restarts;
mod stateful_sets;
