//! The verdict of an oracle: which rule was broken, by what, and how to fix it in most cases.

/// A violated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The rule.
    pub(super) oracle: &'static str,
    /// The subject: an object, or the operator.
    pub(super) subject: String,
    /// A description.
    pub(super) text: String,
    /// How this is usually fixed.
    pub(super) hint: &'static str,
}

impl Violation {
    /// Creates a violation.
    pub(super) fn new(oracle: &'static str, subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { oracle, subject: subject.into(), text: text.into(), hint: "" }
    }

    /// Adds a hint on how this is usually fixed.
    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = hint;
        self
    }

    /// Returns whether it is the same finding as another one.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.oracle == other.oracle && self.subject == other.subject
    }
}
