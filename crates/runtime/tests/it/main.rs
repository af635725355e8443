//! The runtime against the API server, with paused time: every wait is virtual. In this process unless
//! `HOMEOSTAT_TEST_SERVER` names a `homeostat` program, which then serves each test over TLS, or
//! `HOMEOSTAT_TEST_KUBECONFIG` a real kube-apiserver, which serves them one after the other. A test that cannot run
//! there says why (`reference::must_skip`).

#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::redundant_closure_for_method_calls,
    reason = "a test may fall over its own mistakes, and its rows should read as sentences"
)]

mod degraded;
mod elections;
mod faults;
mod finalizers;
mod gaps;
mod handlers;
mod handovers;
mod lab;
mod lagging;
mod lists;
mod logged;
#[cfg(feature = "otel")]
mod otel;
mod outcomes;
mod panics;
mod reference;
mod remote;
mod reports;
mod running;
mod runs;
mod shutdown;
mod silence;
mod sim;
mod starting;
mod statuses;
mod told;
mod triggers;
mod world;
mod writes;
