//! The real `homeostat` process, used as by its users: started, killed, stopped, and reached over TLS by the kube
//! client and by raw bytes. These tests see nothing but its interfaces.
//!
//! Every test has its own process, folder and port, so all can run concurrently. Waits are for conditions, with a
//! limit.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod audited_bodies;
mod backup;
mod cluster;
mod console;
mod demo;
mod envtest;
mod example_operators;
mod exploits;
mod hostile;
mod isolation;
mod kill;
mod kube_client;
mod ledger;
mod leftovers;
mod new;
mod plan;
mod pods;
mod rollouts;
mod server;
mod sim;
mod streams;
mod unprivileged_user;
mod up;
mod user;
mod why;
mod wire;
