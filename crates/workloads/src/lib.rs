//! What makes workloads happen: the controllers that turn Deployments into Pods, and a node that runs Pods as processes.
//!
//! Both are ordinary users of the runtime: they see the API through a `kube::Client` and nothing else, so they work on any
//! server. Whoever embeds them decides which to run; running commands is never the default.

pub mod controllers;
pub mod node;
