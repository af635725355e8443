//! What must never happen, one oracle per file. An oracle judges the record of a schedule beside that of the reference, the
//! schedule in which nothing goes wrong.

mod always;
mod convergence;
mod eventually;
mod foreign_fields;
mod history;
mod identity;
mod justified;
mod leader;
mod leak;
mod path_independence;
mod quiet;
mod ready;
mod rights;
mod same_end;

use std::collections::BTreeSet;

use crate::alarm::Alarm;
use crate::engine::{Acceptance, EndPart, RunRecord, SettledEnd, Setup};
use crate::state::{CanonicalState, canonical_state, differences, differing_paths};

pub(crate) use path_independence::judge_paths;
pub(crate) use rights::judge_rights;

/// What happens when nothing goes wrong.
pub(crate) struct Reference {
    pub(crate) record: RunRecord,
    pub(crate) scenario: ReferenceEnd,
    pub(crate) cleanup: ReferenceEnd,
    counts: justified::Counts,
}

/// One of its two ends.
pub(crate) struct ReferenceEnd {
    pub(crate) state: CanonicalState,
    pub(crate) outside: String,
    /// Paths that differ between two runs in which nothing goes wrong: time or chance decides them.
    pub(crate) ignored: BTreeSet<(String, String)>,
    pub(crate) is_outside_ignored: bool,
    pub(crate) failing: BTreeSet<String>,
}

impl Reference {
    /// Of two runs with different time and chance.
    pub(crate) fn new(setup: &Setup, first: RunRecord, second: &RunRecord) -> Self {
        let end = |one: &SettledEnd, other: &SettledEnd| {
            let start = setup.template.start();
            let state = canonical_state(&one.snapshot, start);
            let ignored = differing_paths(&state, &canonical_state(&other.snapshot, start));
            ReferenceEnd {
                state,
                outside: one.outside.clone(),
                ignored,
                is_outside_ignored: one.outside != other.outside,
                failing: one.failing.keys().cloned().collect(),
            }
        };
        let scenario = end(&first.scenario_end, &second.scenario_end);
        let cleanup = end(&first.cleanup_end, &second.cleanup_end);
        Self { counts: justified::count(&first), record: first, scenario, cleanup }
    }

    pub(crate) fn end(&self, part: EndPart) -> &ReferenceEnd {
        match part {
            EndPart::Scenario => &self.scenario,
            EndPart::Cleanup => &self.cleanup,
        }
    }
}

impl ReferenceEnd {
    /// How an end differs from this one, where the schedule has not found out itself.
    pub(crate) fn known_differences(&self, setup: &Setup, end: &SettledEnd) -> Vec<(String, String)> {
        end.differences.clone().unwrap_or_else(|| self.differences(setup, end))
    }

    /// How an end differs from this one.
    pub(crate) fn differences(&self, setup: &Setup, end: &SettledEnd) -> Vec<(String, String)> {
        let actual = canonical_state(&end.snapshot, setup.template.start());
        let mut found = differences(&self.state, &actual, &self.ignored);
        found.retain(|(object, text)| !history::is_history(&self.state, object, text));
        if !self.is_outside_ignored && self.outside != end.outside {
            found.push(("outside".to_owned(), format!("expected {}, is {}", self.outside, end.outside)));
        }
        found
    }
}

/// The end that a disturbed schedule is given time to reach.
pub(crate) struct SameEnd<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) reference: &'a Reference,
}

impl Acceptance for SameEnd<'_> {
    fn accepts(&self, part: EndPart, end: &mut SettledEnd) -> bool {
        let differences = self.reference.end(part).differences(self.setup, end);
        let is_same = differences.is_empty();
        end.differences = Some(differences);
        is_same
    }
}

/// What the user wants in the end: the acceptance of the reference itself.
pub(crate) struct WantedEnd<'a>(pub(crate) &'a Setup);

impl Acceptance for WantedEnd<'_> {
    fn accepts(&self, part: EndPart, end: &mut SettledEnd) -> bool {
        part == EndPart::Cleanup || eventually::unmet(self.0, end).is_none()
    }
}

/// Judges the schedule in which nothing goes wrong.
pub(crate) fn judge_reference(setup: &Setup, record: &RunRecord) -> Vec<Alarm> {
    let mut alarms = record.alarms.clone();
    alarms.extend(always::judge(setup, record));
    alarms.extend(leader::judge(record));
    alarms.extend(convergence::judge(record, None));
    alarms.extend(eventually::judge(setup, record));
    alarms.extend(quiet::judge(record));
    alarms.extend(leak::judge(setup, record));
    alarms.extend(ready::judge(setup, record));
    alarms
}

/// Judges a schedule in which something went wrong.
pub(crate) fn judge(setup: &Setup, reference: &Reference, record: &RunRecord) -> Vec<Alarm> {
    let mut alarms = record.alarms.clone();
    alarms.extend(always::judge(setup, record));
    alarms.extend(leader::judge(record));
    alarms.extend(justified::judge(reference, record));
    alarms.extend(identity::judge(reference, record));
    alarms.extend(convergence::judge(record, Some(reference)));
    alarms.extend(eventually::judge(setup, record));
    alarms.extend(same_end::judge(setup, reference, record));
    alarms.extend(foreign_fields::judge(record));
    alarms.extend(ready::judge(setup, record));
    alarms
}
