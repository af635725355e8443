//! Shrinks a failing schedule: removes deviations, replaces others by weaker ones, and removes steps of the user, as
//! long as the same oracle raises an alarm about the same subject.
//!
//! **Invariant:** a shorter scenario that fails without any fault is not accepted as a shrunk failure. Otherwise, a
//! condition that depends on a removed step would shrink every failure to nonsense.

use crate::alarm::Alarm;
use crate::engine::Setup;
use crate::explore::{Budget, Explorer};
use crate::fault::Fault;
use crate::trace::Deviation;

/// The maximum number of schedules spent on one failure.
const TRIES_MAX: usize = 400;

/// The maximum number of scenarios tried with one step less. Each needs its own reference.
const SCENARIOS_MAX: usize = 60;

/// Returns the shortest list of deviations found that fails in the same way.
pub(crate) fn shrink(explorer: &Explorer<'_>, deviations: Vec<Deviation>, alarm: &Alarm) -> Vec<Deviation> {
    let mut best = deviations;
    let mut tries = 0;
    loop {
        let smaller = candidates(&best).into_iter().find(|candidate| {
            tries += 1;
            tries <= TRIES_MAX && explorer.alarms_of(candidate).iter().any(|found| found.is_like(alarm))
        });
        match smaller {
            Some(candidate) => best = candidate,
            None => return best,
        }
    }
}

/// Returns schedules with fewer or weaker deviations.
fn candidates(deviations: &[Deviation]) -> Vec<Vec<Deviation>> {
    let mut found = Vec::new();
    for at in 0..deviations.len() {
        let mut fewer = deviations.to_vec();
        fewer.remove(at);
        found.push(fewer);
    }
    for (at, deviation) in deviations.iter().enumerate() {
        for fault in deviation.fault.weaker() {
            let mut weaker = deviations.to_vec();
            weaker[at].fault = fault;
            found.push(weaker);
        }
    }
    found
}

/// A scenario with fewer steps in which the same schedule fails in the same way.
pub(crate) struct ShorterScenario {
    pub(crate) setup: Setup,
    /// The numbers of what is left out, counted from 1 over given objects and steps.
    pub(crate) skipped: Vec<usize>,
    pub(crate) deviations: Vec<Deviation>,
}

/// Removes as many steps and given objects as possible, beginning with the last.
pub(crate) fn drop_steps(setup: &Setup, deviations: Vec<Deviation>, alarm: &Alarm) -> ShorterScenario {
    let total = setup.givens.len() + setup.steps.len();
    let mut best = ShorterScenario { setup: setup.clone(), skipped: Vec::new(), deviations };
    let mut kept: Vec<usize> = (1..=total).collect();
    let mut at = kept.len();
    let mut tries = 0;
    while at > 0 && tries < SCENARIOS_MAX {
        at -= 1;
        tries += 1;
        let is_named = |deviation: &Deviation| deviation.fault == Fault::Postpone { given: at + 1 };
        if at < best.setup.givens.len() && best.deviations.iter().any(is_named) {
            continue;
        }
        let Some(setup) = best.setup.without(at) else { continue };
        let deviations = renumbered(&best.deviations, at, best.setup.givens.len());
        if fails_alike(&setup, &deviations, alarm) {
            let mut skipped = best.skipped;
            skipped.push(kept.remove(at));
            best = ShorterScenario { setup, skipped, deviations };
        }
    }
    best.skipped.sort_unstable();
    best
}

/// Returns whether a scenario fails in the same way, and if it has faults, only because of them.
fn fails_alike(setup: &Setup, deviations: &[Deviation], alarm: &Alarm) -> bool {
    let is_like = |found: &Alarm| found.is_like(alarm);
    if deviations.is_empty() {
        let explorer = Explorer::new(setup, Budget { schedules: 1, seconds: u64::MAX });
        return explorer.alarms_of_scenario(deviations).iter().any(is_like);
    }
    let explorer = Explorer::for_one_schedule(setup);
    let fails_by_itself = !explorer.alarms_in(&[], &explorer.reference.record).is_empty();
    !fails_by_itself && explorer.alarms_of(deviations).iter().any(is_like)
}

/// Returns the deviations with the numbers they have once the item at this position is left out.
fn renumbered(deviations: &[Deviation], at: usize, givens: usize) -> Vec<Deviation> {
    let mut deviations = deviations.to_vec();
    for deviation in &mut deviations {
        match &mut deviation.fault {
            Fault::RestartBeforeStep { step } | Fault::RestartOldOf { step, .. }
                if at >= givens && *step > at - givens + 1 =>
            {
                *step -= 1;
            }
            Fault::Postpone { given } if at < givens && *given > at + 1 => *given -= 1,
            _ => {}
        }
    }
    deviations
}
