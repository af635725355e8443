//! The node with real processes: a server in this process, a supervisor of its own for each test, real time.
//!
//! Waits are for conditions, with a limit; nothing here counts on how long a thing takes.

mod accounts;
mod containers;
mod deletion;
mod environments;
mod isolation;
mod lab;
mod logs;
mod messages;
mod mounts;
mod probes;
mod rights;
mod scheduling;
mod storage;
mod supervisors;
mod volumes;
