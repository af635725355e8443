//! Pairs of faults, the second soon after the first.

use super::faults::faults_at;
use super::{Explorer, Found, Judged};
use crate::trace::Deviation;

/// The number of points after the first fault at which a second one is tried.
const WINDOW: usize = 10;

/// The share of the remaining budget that pairs may use; random schedules get the rest.
const SHARE: (u64, u64) = (2, 3);

pub(super) fn explore(explorer: &mut Explorer<'_>, singles: &[Judged]) -> Option<Found> {
    let mut plans = Vec::new();
    for single in singles.iter().filter(|single| single.is_taken) {
        plans.extend(second_faults(explorer, single));
    }
    let allowed = explorer.left() * SHARE.0 / SHARE.1;
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX).max(1);
    // If there are too many, they are chosen evenly, so that every first fault gets some.
    let total = plans.len();
    let chosen: Vec<_> = if total <= allowed {
        plans
    } else {
        (0..allowed).map(|at| plans[at * total / allowed].clone()).collect()
    };
    explorer.run_all(chosen).0
}

fn second_faults(explorer: &Explorer<'_>, single: &Judged) -> Vec<Vec<Deviation>> {
    let Some(first) = single.deviations.first() else { return Vec::new() };
    let Some(at) = single.points.iter().position(|point| *point.address == *first.at) else {
        return Vec::new();
    };
    let mut plans = Vec::new();
    for point in single.points.iter().skip(at + 1).take(WINDOW) {
        for fault in faults_at(explorer.setup, &explorer.reference.record, point) {
            plans.push(vec![first.clone(), Deviation { at: point.address.to_string(), fault }]);
        }
    }
    plans
}
