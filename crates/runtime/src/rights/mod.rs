//! What an operator may do in a cluster: the rules that follow from its declarations ([`rule`]), whether the server grants
//! them ([`review`]), and writes that nobody declared ([`declared`]).
//!
//! All of it only informs. Whether a request is allowed is decided by the server.

pub(crate) mod declared;
pub(crate) mod review;
pub(crate) mod rule;
