//! The built-in controllers, with a kubelet that only pretends.

mod cron_jobs;
mod daemon_sets;
mod deployments;
mod endpoint_slices;
mod jobs;
mod kubelet;
mod lab;
mod replica_sets;
mod stateful_sets;
