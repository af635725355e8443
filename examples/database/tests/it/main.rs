//! The Database operator on a real API server with the real workload controllers, in this process and in virtual time
//! with a fake kubelet; and once with everything real: stock kubectl, processes, PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

mod children;
mod deletion;
mod problems;
mod sim;
mod test_cluster;
