//! The runtime against the in-process API server, with paused time: every wait is virtual and every run is the same.

mod degraded;
mod elections;
mod faults;
mod finalizers;
mod gaps;
mod lab;
mod outcomes;
mod triggers;
mod writes;
