//! Guided random schedules: those that reached a new state are mutated further.

use homeostat_core::Entropy;

use super::faults::faults_at;
use super::{BATCH, Explorer, Found, Judged};
use crate::trace::Deviation;

/// The maximum number of faults in one schedule. More faults would mask each other.
const FAULTS_MAX: usize = 5;

pub(super) fn explore(explorer: &mut Explorer<'_>, singles: Vec<Judged>) -> Option<Found> {
    let entropy = Entropy::seeded(explorer.setup.seed ^ 0x5eed);
    let mut corpus: Vec<Judged> = Vec::new();
    for judged in singles {
        keep_if_new(explorer, &mut corpus, judged);
    }
    while explorer.has_budget() && !corpus.is_empty() {
        let plans = (0..BATCH).filter_map(|_| mutate(explorer, &corpus, &entropy)).collect::<Vec<_>>();
        if plans.is_empty() {
            return None;
        }
        let (found, judged) = explorer.run_all(plans);
        if found.is_some() {
            return found;
        }
        for one in judged {
            keep_if_new(explorer, &mut corpus, one);
        }
    }
    None
}

fn keep_if_new(explorer: &mut Explorer<'_>, corpus: &mut Vec<Judged>, judged: Judged) {
    let mut state = 0_u64;
    let mut is_new = false;
    for fingerprint in &judged.fingerprints {
        // States that were reached in different ways count as different.
        state = state.rotate_left(7) ^ fingerprint;
        is_new |= explorer.seen.insert(state);
    }
    if is_new {
        corpus.push(judged);
    }
}

fn mutate(explorer: &Explorer<'_>, corpus: &[Judged], entropy: &Entropy) -> Option<Vec<Deviation>> {
    let parent = &corpus[pick(entropy, corpus.len())?];
    let mut deviations = parent.deviations.clone();
    if deviations.len() >= FAULTS_MAX || deviations.len() > 1 && entropy.below(4) == 0 {
        deviations.remove(pick(entropy, deviations.len())?);
    }
    let point = &parent.points[pick(entropy, parent.points.len())?];
    let faults = faults_at(explorer.setup, &explorer.reference.record, point);
    let fault = faults.get(pick(entropy, faults.len())?)?.clone();
    deviations.push(Deviation { at: point.address.to_string(), fault });
    Some(deviations)
}

fn pick(entropy: &Entropy, count: usize) -> Option<usize> {
    if count == 0 { None } else { usize::try_from(entropy.below(count as u64)).ok() }
}
