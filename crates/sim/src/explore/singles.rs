//! Every fault at every point of the reference, one at a time. The order is one of chance, so that a budget that ends early has
//! tried something of everything.

use homeostat_core::Entropy;

use super::faults::faults_at;
use super::{Explorer, Found, Judged};
use crate::trace::Deviation;

pub(super) fn explore(explorer: &mut Explorer<'_>) -> (Option<Found>, Vec<Judged>) {
    let plans = plans(explorer);
    explorer.run_all(plans)
}

fn plans(explorer: &Explorer<'_>) -> Vec<Vec<Deviation>> {
    let (setup, record) = (explorer.setup, &explorer.reference.record);
    let mut plans = Vec::new();
    for point in &record.points {
        for fault in faults_at(setup, record, point) {
            plans.push(vec![Deviation { at: point.address.to_string(), fault }]);
        }
    }
    let entropy = Entropy::seeded(setup.seed ^ 0x0de5);
    for last in (1..plans.len()).rev() {
        let other = usize::try_from(entropy.below(last as u64 + 1)).unwrap_or_default();
        plans.swap(last, other);
    }
    plans
}
