//! One binary for the crate: the contract every store keeps ([`contract`]), run on each implementation.

mod contract;
mod durable;
mod memory;
