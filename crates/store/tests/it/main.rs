//! The crate's only test binary runs the contract of every store ([`contract`]) on each implementation.

mod backup;
mod contract;
mod corruption;
mod durable;
mod faults;
mod kill;
mod memory;
mod migration;
mod simulated;
