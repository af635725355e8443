//! Determines what an operator may do in a cluster: the rules that follow from its declarations ([`required_rules`]),
//! whether the server grants them ([`permission_review`]), and writes that were not declared ([`declared_writes`]).
//!
//! All of it only informs. The server decides whether a request is allowed.

pub(crate) mod declared_writes;
pub(crate) mod permission_review;
pub(crate) mod required_rules;

// The path by which `handlers` imports the rules.
pub(crate) use required_rules as rule;
