//! The finding of an oracle: which rule was violated, by what, and how this is usually fixed.

use serde::{Deserialize, Serialize};

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Alarm {
    /// The name of the oracle.
    pub(crate) oracle: String,
    /// The subject: an object, or the operator.
    pub(crate) subject: String,
    /// The finding, in words.
    pub(crate) text: String,
    /// The usual fix.
    pub(crate) hint: String,
}

impl Alarm {
    pub(crate) fn new(oracle: &str, subject: &str, text: String) -> Self {
        Self { oracle: oracle.to_owned(), subject: subject.to_owned(), text, hint: String::new() }
    }

    pub(crate) fn hint(mut self, hint: &str) -> Self {
        hint.clone_into(&mut self.hint);
        self
    }

    /// Returns whether another alarm is about the same rule and subject.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.oracle == other.oracle && self.subject == other.subject
    }
}
