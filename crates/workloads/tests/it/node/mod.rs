//! Tests the node with real processes: a server in this process, one supervisor per test, real time.
//!
//! Waits are for conditions, with a limit; no test depends on how long anything takes.

mod accounts;
mod containers;
mod deletion;
mod environments;
mod isolation;
mod logs;
mod messages;
mod mounts;
mod probes;
mod rights;
mod scheduling;
mod storage;
mod supervisors;
mod test_cluster;
mod volumes;
