//! What an operator may do in a cluster: the rules that follow from its declarations ([`required_rules`]), whether the
//! server grants them ([`permission_review`]), and writes that were not declared ([`declared_writes`]).
//!
//! All of it only informs. Whether a request is allowed is decided by the server.

pub(crate) mod declared_writes;
pub(crate) mod permission_review;
pub(crate) mod required_rules;

// The path that `handlers` imports the rules by.
pub(crate) use required_rules as rule;
