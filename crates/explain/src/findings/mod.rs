//! The rules: each examines one kind of evidence and says what it finds wrong. Findings are ordered from the root cause
//! to its consequences.
//!
//! There is one file per kind of evidence. A rule reports what it saw, in the words of its source; it never guesses.

mod conditions;
mod deletion;
mod journal;
mod lease;
mod network;
mod pod;
mod rate;
mod references;
mod refusals;
mod server_words;

use homeostat_core::Key;
pub(crate) use refusals::actor_of;

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
    /// What happens next, if known.
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

/// Returns what is wrong, root cause first: a problem of a component comes before what it failed to do, a leaf before
/// its owner, and an observation before a claim in a status.
pub(crate) fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut found = [
        deletion::find(evidence),
        references::find(evidence),
        pod::find(evidence),
        network::find(evidence),
        journal::find(evidence),
        rate::find(evidence),
        lease::find(evidence),
        refusals::find(evidence),
        conditions::find(evidence),
    ]
    .concat();
    let depth = |key: &Key| evidence.find(key).map_or(0, |object| object.depth);
    found.sort_by_key(|finding| (finding.code.rank(), -depth(&finding.about)));
    without_echoes(found)
}

/// Leaves out status claims that repeat a failure which a journal reports in more detail.
fn without_echoes(found: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = Vec::new();
    for finding in found {
        let is_same = |other: &Finding| other.code == finding.code && other.about == finding.about;
        if !(finding.code.is_of_write() && kept.iter().any(is_same)) {
            kept.push(finding);
        }
    }
    kept
}
