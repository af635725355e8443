//! What makes workloads happen: the controllers that turn Deployments into Pods, and a node that runs Pods as processes.
//!
//! Both are ordinary users of the runtime: they see the API through a `kube::Client` and nothing else, so they work on any
//! server. Whoever embeds them decides which to run; running commands is never the default.
//!
//! Reading order: [`controllers`] first, there `replica_set` (the simplest: a number of Pods) with the `pod`, `claim` and
//! `crew` it shares with the others, then `deployment` (which makes ReplicaSets), then any other kind. After that
//! [`node`]: `schedule` (which Pods are its own), `pod` (what is done with them), `keeper` (who holds the processes) and
//! `link` (how node and keeper talk), then `probe`, `storage` and [`node::logs`].

pub mod controllers;
pub mod node;
