//! One test binary for the crate: the contract of every store ([`contract`]), run on each implementation.

mod backup;
mod contract;
mod corruption;
mod durable;
mod faults;
mod kill;
mod memory;
mod migration;
mod simulated;
