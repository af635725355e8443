//! Addresses and ports of Services: first the linked fields are brought in line, then free values are given out.
//!
//! The range of addresses is the cluster's, not a Service's: it is named here so that whoever describes the cluster
//! (bootstrap, certificates) says the same.

mod allocator;
mod normalize;

use std::net::Ipv4Addr;

pub use allocator::{Allocator, Mode};
pub(super) use normalize::normalize;

/// The range of Service addresses, as large clusters choose it: a million of them.
pub const SERVICE_NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 12);
/// The address of the Service `default/kubernetes`.
pub const API_SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
