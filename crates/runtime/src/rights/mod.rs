//! What an operator may do in a cluster: the rules that follow from its declarations ([`required_rules`]), whether the
//! server grants them ([`review`]), and writes that were not declared ([`declared`]).
//!
//! All of it only informs. Whether a request is allowed is decided by the server.

pub(crate) mod declared;
pub(crate) mod required_rules;
pub(crate) mod review;

// The path that `handlers` imports the rules by.
pub(crate) use required_rules as rule;
