//! The operator restarts and is first shown an old state, as by an API server whose cache is behind. It soon catches
//! up, but acts on the old state first.

use std::collections::BTreeSet;

use crate::engine::{Point, PointKind, RunRecord, Setup};
use crate::fault::Fault;

/// The number of changes before a rest that are tried: those of about two steps.
const CHANGES_MAX: usize = 16;

/// How far back from a write, in changes of the store.
const BACK: [u64; 3] = [1, 2, 4];

pub(super) fn faults_at(setup: &Setup, run: &RunRecord, point: &Point) -> Vec<Fault> {
    match point.kind {
        PointKind::Write => BACK.iter().map(|changes| Fault::RestartBack { changes: *changes }).collect(),
        PointKind::Settled => {
            let steps = point.step.min(setup.all_steps());
            let whole = (1..=steps).rev().map(|step| Fault::RestartBeforeStep { step });
            whole.chain(of_one_resource(run, steps)).chain(after_changes(run, point.step)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns restarts with one old cache: each watch may reach another API server.
fn of_one_resource(run: &RunRecord, steps: usize) -> Vec<Fault> {
    let watched = run.points.iter().filter(|point| point.kind == PointKind::OpenWatch);
    let resources: BTreeSet<&str> = watched.filter_map(|point| point.object.split(' ').next()).collect();
    if resources.len() < 2 {
        return Vec::new();
    }
    let pairs = resources.iter().flat_map(|resource| (1..=steps).rev().map(move |step| (*resource, step)));
    pairs.map(|(resource, step)| Fault::RestartOldOf { resource: resource.to_owned(), step }).collect()
}

/// Returns restarts on the states just after each of the last changes. Some states occur only between two rests, such
/// as an object that is marked for deletion and not yet gone.
fn after_changes(run: &RunRecord, step: usize) -> Vec<Fault> {
    let done = run.changes.iter().filter(|change| change.step <= step);
    let revisions: Vec<u64> = done.map(|change| change.event.revision.get()).collect();
    let Some(last) = revisions.iter().max() else { return Vec::new() };
    let mut back: Vec<u64> =
        revisions.iter().rev().take(CHANGES_MAX).map(|revision| last - revision).collect();
    back.retain(|changes| *changes > 0);
    back.sort_unstable();
    back.dedup();
    back.into_iter().map(|changes| Fault::RestartBack { changes }).collect()
}
