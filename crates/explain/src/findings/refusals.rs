//! Writes that the server refused, for controllers that keep no journal here.

use super::Finding;
use crate::evidence::Evidence;
use crate::explanation::CauseCode;
use crate::times;

/// A refusal counts while nothing was written to the object after it.
pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut found = Vec::new();
    for object in evidence.below() {
        let Some(last) = evidence.writes.iter().rev().find(|write| write.target == object.key) else {
            continue;
        };
        // A conflict is answered by a retry.
        let Some(refusal) = last.refusal.as_ref().filter(|refusal| refusal.code != 409) else { continue };
        let code = if refusal.code == 403 { CauseCode::MissingRight } else { CauseCode::RefusedWrite };
        let text = format!(
            "was to be changed by {} (user {}), and the server refused it with {} ({}): {}",
            program(&last.agent),
            last.user,
            refusal.code,
            times::both(evidence.now, last.at),
            refusal.message
        );
        found.push(Finding::new(code, &object.key, text));
    }
    found
}

/// Returns the program that a user agent names.
pub(crate) fn program(agent: &str) -> &str {
    match agent.split(['/', ' ']).next() {
        None | Some("") => "a client without a name",
        Some(name) => name,
    }
}
