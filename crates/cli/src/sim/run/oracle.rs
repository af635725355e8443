//! The rules that operators must not break. Some end a run as soon as they are broken, the others judge its record.
//!
//! Where a rule is the same as in the simulator for operators in Rust, so is its wording.

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat_core::Key;
use homeostat_core::canonical_state::{StateDifference, shown_key};
use serde_json::Value;

use super::canonical_state::repeatable_name;
use super::count_condition::CountCondition;
use super::request_address::{address_of, is_state_write};
use super::run_record::{Change, ReferenceRuns, RunRecord};
use super::scenario::Scenario;
use super::violation::Violation;
use super::wire::WireLog;
use super::wire_log::Actor;

pub(super) const CONVERGES: &str = "converges";
const REPEATS: &str = "repeats";
const QUIET: &str = "quiet at rest";
const LEAK: &str = "no leak";
const EVENTUALLY: &str = "eventually";

/// This many equal requests within [`HASTE_TIME`] are a hot loop.
const HASTE_CALLS: usize = 100;
const HASTE_TIME: Duration = Duration::from_secs(2);

/// An operator that was just started may request once what already exists: it does not remember its earlier requests.
const VAIN_MAX: usize = 1;

/// The maximum number of differences that a violation shows.
const DIFFERENCES_MAX: usize = 6;

const LOOP_HINT: &str = "something changes in every run: a time, a random name, or two writers that undo each other; write \
                         only what differs, and let one writer own each field";
const MISSING_HINT: &str = "work that was interrupted is not taken up again: let each run look at every object it wants, and \
                            do not decide by a mark that was written before the work was done";
const SURPLUS_HINT: &str = "something is made again although it is there, or is not taken away: derive names from the owner, \
                            and look for what is no longer wanted in every run";
const OTHER_HINT: &str = "a change was missed, or decided on an old state: compare the whole object with what is wanted in \
                          every run, not only what an event says";
const QUIET_HINT: &str = "compare before you write, and leave out of the comparison what changes by itself: times, counters, \
                          fields the server fills in";
const LEAK_HINT: &str = "give children an owner reference, and what is outside or in another namespace a finalizer that is set \
                         before it is made";
const HASTE_HINT: &str =
    "wait longer after each failure, and list again after 410 instead of watching from the same version";
const EXIT_HINT: &str = "an error of one request must not end the program; if it is meant to end and to be started again, say \
                         mayExit: true in the scenario";
const DELETED_HINT: &str = "a decision to delete was made on an old state: check the uid (preconditions), or read the object \
                            from the server before deleting";
const MADE_HINT: &str = "a creation was repeated because its answer was lost, or decided on an old cache: use a name derived \
                         from the owner, so that the second creation is refused";

/// Returns the violation of an operator that does not come to rest, or comes to rest in the wrong state.
pub(super) fn not_at_rest(
    when: &str,
    differences: &[StateDifference],
    changes: &[Change],
    patience: Duration,
) -> Violation {
    let seconds = patience.as_secs_f64();
    let Some(first) = differences.first() else {
        let busy = changes.last().map(|change| shown_key(&change.event.key)).unwrap_or_default();
        let text = format!("still writing {seconds} s {when}; the last change was of {busy}");
        return Violation::new(CONVERGES, busy, text).hint(LOOP_HINT);
    };
    let lines: Vec<String> =
        differences.iter().take(DIFFERENCES_MAX).map(|one| format!("{}: {}", one.object, one.text)).collect();
    let text = format!(
        "{when}, the state still differs from the undisturbed one after {seconds} s (if the operator retries later than that, \
         raise `patience` in the scenario):\n  {}",
        lines.join("\n  ")
    );
    let hint = match &*first.text {
        "is missing" => MISSING_HINT,
        "should not be there" => SURPLUS_HINT,
        _ => OTHER_HINT,
    };
    Violation::new("same end", &*first.object, text).hint(hint)
}

/// Returns whether an undisturbed operator might have met the rule with more time.
pub(super) fn is_matter_of_time(violation: &Violation) -> bool {
    [REPEATS, QUIET, LEAK, EVENTUALLY].contains(&violation.oracle)
}

/// Returns the violation of two undisturbed runs that end differently.
pub(super) fn not_repeated(difference: &StateDifference) -> Violation {
    let StateDifference { object, text, .. } = difference;
    let text = format!(
        "two runs without faults end differently, so nothing can be compared: {object} {text} (if the operator is slow, raise \
         `settle` in the scenario; if chance decides the field, add its path to `ignore`)"
    );
    Violation::new(REPEATS, object, text)
}

/// Returns the violation of an operator that does not work after its start.
pub(super) fn not_up(patience: Duration) -> Violation {
    let seconds = patience.as_secs();
    let text = format!(
        "{seconds} s after its start the operator has not made the requests and opened the watches that it begins with"
    );
    Violation::new("starts", "the operator", text)
}

/// Returns the violation of an operator that exited.
pub(super) fn ended(status: &str) -> Violation {
    Violation::new("keeps running", "the operator", format!("the operator ended by itself: {status}"))
        .hint(EXIT_HINT)
}

/// Rejects many equal requests in a short time.
pub(super) fn judge_haste(wire: &WireLog) -> Result<(), Violation> {
    let now = wire.elapsed();
    let state = wire.state();
    let recent = state.calls.iter().rev().take_while(|call| now.saturating_sub(call.at) < HASTE_TIME);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for call in recent {
        let count = counts.entry(address_of(&call.target)).or_default();
        *count += 1;
        if *count > HASTE_CALLS {
            let name = address_of(&call.target);
            let text = format!("\"{name}\" was asked more than {HASTE_CALLS} times within {HASTE_TIME:?}");
            return Err(Violation::new("no hot loop", name, text).hint(HASTE_HINT));
        }
    }
    Ok(())
}

/// Rejects writes at rest: changes, and repeated requests that change nothing.
pub(super) fn judge_rest(
    wire: &WireLog,
    calls: usize,
    changes: &[Change],
    when: &str,
) -> Result<(), Violation> {
    if let Some(change) = changes.first() {
        let name = shown_key(&change.event.key);
        let count = changes.len();
        let text = format!("{count} change(s) {when}; the first was of {name}");
        return Err(Violation::new(QUIET, name, text).hint(QUIET_HINT));
    }
    let state = wire.state();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for call in state.calls[calls..].iter().filter(|call| is_state_write(&call.target)) {
        *counts.entry(address_of(&call.target)).or_default() += 1;
    }
    match counts.into_iter().find(|(_, count)| *count > VAIN_MAX) {
        Some((name, count)) => {
            let text = format!("\"{name}\" was asked {count} times {when}, and changed nothing");
            Err(Violation::new(QUIET, name, text).hint(QUIET_HINT))
        }
        None => Ok(()),
    }
}

/// Rejects a final state in which an `eventually` condition of the scenario does not hold.
pub(super) fn judge_eventually(scenario: &Scenario, objects: &[(Key, Value)]) -> Result<(), Violation> {
    for condition in &scenario.eventually {
        if let Some(count) = condition.violation(objects.iter().map(|(key, object)| (key, object))) {
            let text = format!("at rest after the last step there must be {condition}; there are {count}");
            return Err(Violation::new(EVENTUALLY, condition.to_string(), text));
        }
    }
    Ok(())
}

/// Judges the record of an undisturbed run.
pub(super) fn judge_reference(scenario: &Scenario, record: &RunRecord) -> Vec<Violation> {
    let mut violations = record.violations.clone();
    violations.extend(leak(scenario, record));
    violations
}

/// Judges the record of a disturbed run.
pub(super) fn judge(reference: &ReferenceRuns, record: &RunRecord) -> Vec<Violation> {
    // The cause comes before its consequences.
    let mut violations: Vec<Violation> = justified(reference, record).into_iter().collect();
    violations.extend(record.violations.clone());
    violations
}

/// Checks the `always` conditions, change by change.
#[derive(Default)]
pub(super) struct AlwaysChecker {
    objects: BTreeMap<Key, Value>,
}

impl AlwaysChecker {
    /// Applies the changes of one commit, which happen at the same time, and rejects a state that violates a condition.
    pub(super) fn observe(&mut self, scenario: &Scenario, commit: &[Change]) -> Result<(), Violation> {
        for change in commit {
            let key = &change.event.key;
            match change.objects().1 {
                Some(object) => drop(self.objects.insert(key.clone(), object)),
                None => drop(self.objects.remove(key)),
            }
        }
        let concerns =
            |condition: &&CountCondition| commit.iter().any(|change| condition.concerns(&change.event.key));
        for condition in scenario.always.iter().filter(concerns) {
            if let Some(count) = condition.violation(self.objects.iter()) {
                let text = format!("there were {count}; there must always be {condition}");
                return Err(Violation::new("always", condition.to_string(), text));
            }
        }
        Ok(())
    }
}

/// Finds objects that are left after everything has been deleted.
fn leak(scenario: &Scenario, record: &RunRecord) -> Option<Violation> {
    // There is one rest at the start, one for each step and one for the cleanup.
    let last = record.rests.get(scenario.steps.len() + 1)?;
    let start = &record.rests.first()?.state;
    let is_kept = |name: &str| scenario.keeps.iter().any(|pattern| matches_pattern(pattern, name));
    let (name, object) = last.state.iter().find(|(name, _)| !start.contains_key(*name) && !is_kept(name))?;
    let is_stuck = !object["metadata"]["deletionTimestamp"].is_null();
    let how = if is_stuck { "is never gone: a finalizer stays" } else { "is left" };
    let text = format!(
        "{name} {how} after everything that the steps made was deleted (if it is meant to stay, add it to `keeps` in the \
         scenario)"
    );
    Some(Violation::new(LEAK, name, text).hint(LEAK_HINT))
}

/// Returns whether a string matches a pattern, in which `*` stands for any string.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| matches_pattern(rest, &text[at..]))
        }),
    }
}

/// The numbers of objects that the operator created and deleted, and that others deleted, by name; objects with
/// generated names are counted together.
#[derive(Default)]
struct WriteCounts {
    made: BTreeMap<String, usize>,
    deleted: BTreeMap<String, usize>,
    removed_by_others: BTreeMap<String, usize>,
}

/// Finds a creation or deletion that the undisturbed run does not have.
fn justified(reference: &ReferenceRuns, record: &RunRecord) -> Option<Violation> {
    let (expected, actual) = (count_writes(&reference.record), count_writes(record));
    let number = |counts: &BTreeMap<String, usize>, name: &str| counts.get(name).copied().unwrap_or_default();
    for (name, count) in &actual.deleted {
        let justified = number(&expected.deleted, name);
        if *count > justified {
            let text =
                format!("the operator deleted {name} {count} time(s); undisturbed it does so {justified}");
            return Some(Violation::new("justified deletion", name, text).hint(DELETED_HINT));
        }
    }
    for (name, count) in &actual.made {
        let lost = number(&actual.removed_by_others, name) + number(&actual.deleted, name);
        let known = number(&expected.removed_by_others, name) + number(&expected.deleted, name);
        let justified = number(&expected.made, name) + lost.saturating_sub(known);
        if *count > justified {
            let text =
                format!("the operator made {name} {count} time(s); undisturbed it does so {justified}");
            return Some(Violation::new("justified creation", name, text).hint(MADE_HINT));
        }
    }
    None
}

fn count_writes(record: &RunRecord) -> WriteCounts {
    let mut counts = WriteCounts::default();
    for change in &record.changes {
        let is_operator = record.actor_of(change) == Actor::Operator;
        let is_marked = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let counted = match change.objects() {
            (None, Some(new)) if is_operator => Some((&mut counts.made, new)),
            (Some(old), None) if is_operator && !is_marked(&old) => Some((&mut counts.deleted, old)),
            // A deletion that waits for finalizers counts when it is requested.
            (Some(old), Some(new)) if is_operator && is_marked(&new) && !is_marked(&old) => {
                Some((&mut counts.deleted, old))
            }
            (Some(old), None) if !is_operator => Some((&mut counts.removed_by_others, old)),
            _ => None,
        };
        if let Some((map, object)) = counted {
            *map.entry(repeatable_name(&change.event.key, &object)).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("configmaps a/b", "configmaps a/b", true),
            ("configmaps a/b", "configmaps a/bc", false),
            ("configmaps */b-*", "configmaps a/b-c", true),
            ("configmaps *", "secrets a/b", false),
            ("*", "", true),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }
}
