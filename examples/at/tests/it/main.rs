//! The seven steps of an At on a real API server in this process, in virtual time, with a fake kubelet.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

mod schedules;
mod sim;
mod steps;
mod test_cluster;
