//! Implements selectors: label selectors ([`LabelSelector`]) and field selectors ([`FieldSelector`]).
//!
//! Both are parsed once per request and matched without allocating, against a lookup function from the caller, so an
//! index or a parsed side-struct works as well as a map. Grammar and error messages are Kubernetes' own, so they are
//! familiar to clients and users. This module does not know which fields a kind offers; the API server checks that.

mod field;
mod label;
mod lexer;
mod syntax;

pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};
pub use syntax::{label_key_faults, label_value_faults};

/// A selector that cannot be parsed; the message is the same as Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);
