//! A target: one part of the system, the form of its inputs, and what must hold for every input. The targets are in
//! `targets`.

use serde_json::Value;

use crate::corpus::Corpus;

/// The outcome of an input, in words: inputs with a new outcome are kept and mutated further. Digits and quoted parts
/// are ignored.
pub(crate) type Features = Vec<String>;

/// Describes the property that did not hold.
pub(crate) type Violation = String;

/// One part of the system with its properties.
pub(crate) trait Target {
    /// Returns the initial inputs.
    fn seeds(&self, corpus: &Corpus) -> Vec<Value>;

    /// Returns words that inputs are made of, besides those of the corpus.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// Tries one input of any shape. The same input has the same outcome every time.
    fn run(&mut self, input: &Value) -> Result<Features, Violation>;
}

/// An entry of the list of targets.
pub(crate) struct TargetEntry {
    pub(crate) name: &'static str,
    /// What is tried, and what must hold.
    pub(crate) about: &'static str,
    pub(crate) make: fn() -> Box<dyn Target>,
}

/// Returns a violation unless the claim holds.
pub(crate) fn require(claim: bool, say: impl FnOnce() -> String) -> Result<(), Violation> {
    if claim { Ok(()) } else { Err(say()) }
}

/// Returns a violation unless both are equal.
pub(crate) fn require_equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    one: &T,
    other: &T,
) -> Result<(), Violation> {
    require(one == other, || format!("{what}:\n  {one:?}\n  {other:?}"))
}
