//! The rules: each looks at one sort of evidence and says what it finds wrong. The findings are put into an order, from
//! the true cause to its consequences.
//!
//! One file per sort of evidence. A rule names what it saw, in the words of its source; it never guesses.

mod conditions;
mod deletion;
mod journal;
mod lease;
mod pod;
mod rate;
mod refusals;

use homeostat_core::Key;
pub(crate) use refusals::program;

use crate::evidence::Evidence;
use crate::explanation::CauseCode;

/// Something that a rule found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) code: CauseCode,
    /// The object that has the problem.
    pub(crate) about: Key,
    /// What is wrong, as the end of a sentence that begins with the name of the object.
    pub(crate) text: String,
    /// What happens next, if it is known.
    pub(crate) next: Option<String>,
}

impl Finding {
    pub(crate) fn new(code: CauseCode, about: &Key, text: impl Into<String>) -> Self {
        Self { code, about: about.clone(), text: text.into(), next: None }
    }

    pub(crate) fn with_next(self, next: Option<String>) -> Self {
        Self { next, ..self }
    }
}

/// Returns what is wrong, the truest cause first: a problem of the machinery that acts comes before what it did not do,
/// a leaf before what owns it, and an observation before a claim in a status.
pub(crate) fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut found = [
        deletion::find(evidence),
        pod::find(evidence),
        journal::find(evidence),
        rate::find(evidence),
        lease::find(evidence),
        refusals::find(evidence),
        conditions::find(evidence),
    ]
    .concat();
    let depth = |key: &Key| evidence.find(key).map_or(0, |object| object.depth);
    found.sort_by_key(|finding| (finding.code.rank(), -depth(&finding.about)));
    found
}
