//! Runs workloads: the controllers that turn Deployments into Pods, and a node that runs Pods as processes.
//!
//! Both are ordinary users of the runtime. They see the API only through a `kube::Client`, so they work with any
//! server. The program that embeds them decides which of them to run; running commands is never the default.
//!
//! Reading order: start with [`controllers`]: read `replica_set` (the simplest: a number of Pods) and the modules it
//! shares with the others, `partial_pod`, `ownership` and `pod_control`. Then read `deployment`, which creates
//! ReplicaSets, and any other kind. After that read [`node`]: `scheduler` (which Pods belong to the node), `pod` (what
//! the node does with them), `supervisor` (the process that runs the containers), `supervisor_client` (how the node
//! talks to it), and finally `probe`, `storage` and [`node::logs`].

#![deny(clippy::exit)]

pub mod controllers;
pub mod node;
