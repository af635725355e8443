//! Which objects are meant: label selectors ([`LabelSelector`]) and field selectors ([`FieldSelector`]).
//!
//! Both are parsed once per request and matched without allocating, against a lookup the caller gives, so an index
//! or a parsed side-struct serves as well as a map. Grammar and error texts are Kubernetes': clients and users meet
//! the words they know. What fields a kind offers is not known here; the API server checks that.

mod field;
mod label;
mod lexer;
mod syntax;

pub use field::{FieldSelector, FieldTerm};
pub use label::{LabelSelector, Operator, Requirement};
pub use syntax::{label_key_faults, label_value_faults};

/// A selector that cannot be read; the text is the one Kubernetes gives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub(crate) String);
