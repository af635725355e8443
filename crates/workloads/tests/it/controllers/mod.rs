//! Tests the built-in controllers, with a fake kubelet.

#![expect(clippy::needless_pass_by_value, reason = "rows should read as sentences")]

mod cron_jobs;
mod daemon_sets;
mod deployments;
mod disruption_budgets;
mod endpoint_slice_mirroring;
mod endpoint_slices;
mod jobs;
mod kubelet;
mod nodes;
mod replica_sets;
mod replication_controllers;
mod restarts;
mod stateful_sets;
mod taint_eviction;
mod test_cluster;
