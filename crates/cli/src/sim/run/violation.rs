//! What an oracle says: which rule was broken, by what, and how such a thing is usually cured.

/// Something that must not happen did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The rule.
    pub(super) oracle: &'static str,
    /// What it is about: an object, or the operator.
    pub(super) subject: String,
    /// In words.
    pub(super) text: String,
    /// How such a thing is usually cured.
    pub(super) hint: &'static str,
}

impl Violation {
    /// Creates a violation.
    pub(super) fn new(oracle: &'static str, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { oracle, subject: subject.into(), text: text.into(), hint: "" }
    }

    /// Adds how such a thing is usually cured.
    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    /// Returns whether it is the same finding as another one.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.oracle == other.oracle && self.subject == other.subject
    }
}
