//! The user acts sooner, or while the operator is down, or in a different order.

use crate::engine::{Point, PointKind, Setup};
use crate::fault::Fault;

pub(super) fn faults_at(setup: &Setup, point: &Point) -> Vec<Fault> {
    let (next, later) = (setup.step(point.step), setup.step(point.step + 1));
    let mut faults = Vec::new();
    if point.kind == PointKind::Settled {
        if next.is_some() {
            faults.push(Fault::Down);
        }
        // Steps about the same object must stay in order; deletions of different objects, or creations of different
        // objects, may be swapped. The scenario is judged before the clean-up, so its last step must not move behind
        // that.
        let is_last = point.step + 1 == setup.steps.len();
        if let (Some(next), Some(later)) = (next, later)
            && !is_last
            && next.object() != later.object()
            && next.is_delete() == later.is_delete()
        {
            faults.push(Fault::SwapSteps);
        }
        if point.step == 0 && setup.givens.len() > 1 {
            faults.extend((1..=setup.givens.len()).map(|given| Fault::Postpone { given }));
        }
    } else if next.is_some() {
        faults.push(Fault::StepFirst);
    }
    faults
}
