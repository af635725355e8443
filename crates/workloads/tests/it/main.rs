//! Tests the workloads against the in-process API server. The controllers run in paused time: every wait is virtual,
//! and runs repeat exactly. The node runs real processes in real time.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

mod controllers;
mod node;
mod sim;
