//! Tests the runtime against the API server, with paused time: every wait is virtual. The server runs in this process
//! unless `HOMEOSTAT_TEST_SERVER` names a `homeostat` program, which then serves each test over TLS, or
//! `HOMEOSTAT_TEST_KUBECONFIG` a real kube-apiserver, which serves them one after the other. A test that cannot run
//! there reports why (`reference::must_skip`).

#![expect(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::redundant_closure_for_method_calls,
    reason = "a test may fall over its own mistakes, and its rows should read as sentences"
)]

mod degraded;
mod elections;
mod events_and_undeclared_kinds;
mod faults;
mod finalizers;
mod handlers;
mod handovers;
mod lagging;
mod lists;
mod logged;
mod missed_watch_events;
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
mod silent_connections;
mod sim;
mod starting;
mod statuses;
mod test_cluster;
mod triggers;
mod world;
mod writes;
