//! The runtime against the in-process API server, with paused time: every wait is virtual and every run is the same.

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
mod lab;
mod outcomes;
mod triggers;
mod world;
mod writes;
