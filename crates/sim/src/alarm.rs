//! What an oracle says: which rule was broken, by what, and how such a thing is usually cured.

use serde::{Deserialize, Serialize};

/// Something that must not happen did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Alarm {
    /// Which oracle says so.
    pub(crate) oracle: String,
    /// What it is about: an object, or the operator.
    pub(crate) subject: String,
    /// In words.
    pub(crate) text: String,
    /// How such a thing is usually cured.
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

    /// Is it the same finding as another one?
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.oracle == other.oracle && self.subject == other.subject
    }
}
