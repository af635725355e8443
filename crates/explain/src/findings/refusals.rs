//! Writes that the server refused, for controllers that keep no journal here.

use homeostat_core::Key;
use homeostat_core::write_history::{SERVER_USER, WriteRecord};

use super::Finding;
use super::server_words::code_of_words;
use crate::evidence::Evidence;
use crate::explanation::CauseCode;
use crate::times;

/// Finds refused writes. A refusal counts until the object is next written. If the object does not exist, its creation
/// may have been refused.
pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let mut keys: Vec<&Key> = evidence.below().map(|object| &object.key).collect();
    if evidence.subject().is_none() {
        keys.push(&evidence.subject);
    }
    keys.into_iter().filter_map(|key| find_last_refusal(evidence, key)).collect()
}

fn find_last_refusal(evidence: &Evidence, key: &Key) -> Option<Finding> {
    let last = evidence.writes.iter().rev().find(|write| write.target == *key)?;
    // A conflict is resolved by a retry, and a missing object cannot be changed.
    let refusal = last.refusal.as_ref().filter(|refusal| !matches!(refusal.code, 404 | 409))?;
    let what = if last.verb == "create" { "created" } else { "changed" };
    let text = format!(
        "was to be {what} by {} ({}), and the server refused it ({}): {}",
        actor_of(last),
        times::both(evidence.now, last.at),
        refusal.code,
        refusal.message
    );
    let code = code_of_words(&refusal.message, Some(refusal.code)).unwrap_or(CauseCode::RefusedWrite);
    Some(Finding::new(code, key, text))
}

/// Returns who sent a write, in human-readable form.
pub(crate) fn actor_of(write: &WriteRecord) -> String {
    let agent = if write.agent.is_empty() { &write.manager } else { &write.agent };
    let program = agent.split(['/', ' ']).next().filter(|name| !name.is_empty());
    match (write.user == SERVER_USER, program) {
        (true, _) if !agent.is_empty() => format!("the server's {agent}"),
        (true, _) => "the server itself".to_owned(),
        (false, Some(program)) => format!("{program} (user {})", write.user),
        (false, None) => format!("user {}", write.user),
    }
}
