//! The oracles: what must always hold, one rule per file. An oracle compares the record of a schedule with that of the
//! reference, the schedule without faults.

mod always;
mod convergence;
mod eventually;
mod foreign_fields;
mod generated;
mod history;
mod identity;
mod justified;
mod leader;
mod leak;
mod path_independence;
mod ready;
mod rights;
mod same_end;
mod writes_at_rest;

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock};

use homeostat_core::canonical_state::state_differences;

use crate::alarm::Alarm;
use crate::engine::{Acceptance, EndPart, RunRecord, SettledEnd, Setup};
use crate::state::{CanonicalState, canonical_state, differing_paths};

pub(crate) use path_independence::judge_paths;
pub(crate) use rights::judge_rights;

/// The schedule without faults, with which all others are compared.
pub(crate) struct ReferenceRun {
    pub(crate) record: RunRecord,
    pub(crate) scenario: ReferenceEnd,
    pub(crate) cleanup: ReferenceEnd,
    counts: justified::Counts,
    replaced_values: generated::ReplacedValues,
    known_ends: RwLock<HashMap<EndIdentity, Vec<(String, String)>>>,
}

/// An end of a schedule: its part, everything that led to the state of the cluster, and the state outside.
type EndIdentity = (EndPart, u128, String);

/// The maximum number of ends whose differences are remembered. A whole exploration has fewer, unless the state outside
/// is different in every schedule.
const KNOWN_ENDS_MAX: usize = 10_000;

/// One of the two end states of the reference run: after the scenario, or after the cleanup.
pub(crate) struct ReferenceEnd {
    pub(crate) state: CanonicalState,
    pub(crate) outside: String,
    /// Paths in which two runs without faults differ, because they depend on time or randomness.
    pub(crate) ignored: BTreeSet<(String, String)>,
    pub(crate) is_outside_ignored: bool,
    pub(crate) failing: BTreeSet<String>,
}

impl ReferenceRun {
    /// Creates the reference from two runs with different times and seeds.
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
        let known_ends = RwLock::default();
        Self {
            counts: justified::count(&first),
            replaced_values: generated::replaced_values(&first),
            record: first,
            scenario,
            cleanup,
            known_ends,
        }
    }

    /// Returns how an end differs from that of the reference. Differences are remembered, because most ends are alike.
    fn differences(&self, setup: &Setup, part: EndPart, end: &SettledEnd) -> Vec<(String, String)> {
        let identity = (part, end.history, end.outside.clone());
        let known = self.known_ends.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(differences) = known.get(&identity) {
            return differences.clone();
        }
        drop(known);
        let differences = self.end(part).differences(setup, end);
        let mut known = self.known_ends.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < KNOWN_ENDS_MAX {
            known.insert(identity, differences.clone());
        }
        differences
    }

    pub(crate) fn end(&self, part: EndPart) -> &ReferenceEnd {
        match part {
            EndPart::Scenario => &self.scenario,
            EndPart::Cleanup => &self.cleanup,
        }
    }
}

impl ReferenceEnd {
    /// Returns how an end differs from this one; compares them unless the schedule has already done so.
    pub(crate) fn known_differences(&self, setup: &Setup, end: &SettledEnd) -> Vec<(String, String)> {
        end.differences.clone().unwrap_or_else(|| self.differences(setup, end))
    }

    /// Returns how an end differs from this one.
    pub(crate) fn differences(&self, setup: &Setup, end: &SettledEnd) -> Vec<(String, String)> {
        let actual = canonical_state(&end.snapshot, setup.template.start());
        let found = state_differences(&self.state, &actual, &self.ignored).into_iter();
        let mut found: Vec<_> = found.map(|difference| (difference.object, difference.text)).collect();
        found.retain(|(object, text)| !history::is_history(&self.state, object, text));
        if !self.is_outside_ignored && self.outside != end.outside {
            found.push(("outside".to_owned(), format!("expected {}, is {}", self.outside, end.outside)));
        }
        found
    }
}

/// Accepts the end of the reference: a disturbed schedule is given time to reach it.
pub(crate) struct SameEnd<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) reference: &'a ReferenceRun,
}

impl Acceptance for SameEnd<'_> {
    fn accepts(&self, part: EndPart, end: &mut SettledEnd) -> bool {
        let differences = self.reference.differences(self.setup, part, end);
        let is_same = differences.is_empty();
        end.differences = Some(differences);
        is_same
    }
}

/// Accepts an end that meets the user's conditions: the acceptance of the reference itself.
pub(crate) struct WantedEnd<'a>(pub(crate) &'a Setup);

impl Acceptance for WantedEnd<'_> {
    fn accepts(&self, part: EndPart, end: &mut SettledEnd) -> bool {
        part == EndPart::Cleanup || eventually::unmet(self.0, end).is_none()
    }
}

/// Judges the schedule without faults.
pub(crate) fn judge_reference(setup: &Setup, record: &RunRecord) -> Vec<Alarm> {
    let mut alarms = record.alarms.clone();
    alarms.extend(always::judge(setup, record));
    alarms.extend(leader::judge(record));
    alarms.extend(convergence::judge(record, None));
    alarms.extend(eventually::judge(setup, record));
    alarms.extend(writes_at_rest::judge(setup, record));
    alarms.extend(leak::judge(setup, record));
    alarms.extend(ready::judge(setup, record));
    alarms
}

/// Judges a schedule with faults.
pub(crate) fn judge(setup: &Setup, reference: &ReferenceRun, record: &RunRecord) -> Vec<Alarm> {
    let mut alarms = record.alarms.clone();
    if record.is_given_refused {
        return alarms;
    }
    alarms.extend(always::judge(setup, record));
    alarms.extend(leader::judge(record));
    alarms.extend(justified::judge(reference, record));
    alarms.extend(identity::judge(reference, record));
    alarms.extend(convergence::judge(record, Some(reference)));
    alarms.extend(eventually::judge(setup, record));
    alarms.extend(same_end::judge(setup, reference, record));
    alarms.extend(foreign_fields::judge(record));
    alarms.extend(generated::judge(reference, record));
    alarms.extend(ready::judge(setup, record));
    alarms
}
