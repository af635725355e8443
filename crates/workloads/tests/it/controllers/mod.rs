//! The built-in controllers, with a kubelet that only pretends.

mod deployments;
mod kubelet;
mod lab;
mod replica_sets;
