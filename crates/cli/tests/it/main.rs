//! The real `homeostat` process, used as people use it: started, killed, stopped, reached over TLS by the kube client and
//! by raw bytes. Nothing here looks inside; whatever it learns comes over the wire.
//!
//! Every test has its own process, folder and port, so all run side by side. Waits are for conditions, with a limit.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod backup;
mod cluster;
mod console;
mod demo;
mod exploits;
mod hostile;
mod isolation;
mod kill;
mod ledger;
mod leftovers;
mod new;
mod ordinary;
mod pods;
mod program;
mod rollouts;
mod server;
mod sim;
mod up;
mod user;
mod walks;
mod why;
mod wire;
