//! The workloads against the in-process API server, with paused time: every wait is virtual and every run is the same.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

mod controllers;
