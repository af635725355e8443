//! Where each fault can happen: the points are the requests and watch events of the undisturbed run and the steps of
//! the scenario.
//!
//! The order in which they are tried alternates between all kinds of faults, the most fruitful first, so that even a
//! small budget covers some of each.

use std::collections::BTreeSet;

use homeostat_core::{Entropy, RequestVerb};

use super::fault::{Fault, FaultAtAddress, FaultKind};
use super::request_address::{address_of, is_about_objects, is_state_write};
use super::run_record::RunRecord;
use super::wire_log::CallRecord;

/// How long a watch is delayed: longer than most operators wait before they retry.
const DELAY_MILLISECONDS: u64 = 1500;
/// How long an outage lasts: as long as the window in which hot loops are measured.
const OUTAGE_MILLISECONDS: u64 = 2000;
/// The maximum number of faults in a random combination.
const TOGETHER_MAX: u64 = 3;

/// Returns every single fault at every point, in the order in which they are tried.
pub(super) fn single_faults(reference: &RunRecord, steps: usize, sorts: &[FaultKind]) -> Vec<FaultAtAddress> {
    let mut classes = classes_of(reference, steps);
    for class in &mut classes {
        class.retain(|one| sorts.contains(&one.fault.sort()));
        class.reverse();
    }
    let mut order = Vec::new();
    while classes.iter().any(|class| !class.is_empty()) {
        order.extend(classes.iter_mut().filter_map(Vec::pop));
    }
    order
}

/// Returns a random combination of faults.
pub(super) fn random_faults(singles: &[FaultAtAddress], entropy: &Entropy) -> Vec<FaultAtAddress> {
    let count = 2 + entropy.below(TOGETHER_MAX - 1);
    let mut chosen: Vec<FaultAtAddress> = Vec::new();
    for _ in 0..count {
        let at = usize::try_from(entropy.below(singles.len() as u64)).unwrap_or_default();
        let mut one = singles[at].clone();
        // A request that is repeated after the first fault has a later ordinal.
        if entropy.below(3) == 0 {
            one.at = later_address(&one.at);
        }
        if chosen.iter().all(|other| other.at != one.at) {
            chosen.push(one);
        }
    }
    chosen.sort();
    chosen
}

/// Returns the address of the next request with the same name.
fn later_address(address: &str) -> String {
    match address.rsplit_once(" #").map(|(name, number)| (name, number.parse::<u32>())) {
        Some((name, Ok(number))) => format!("{name} #{}", number + 1),
        _ => address.to_owned(),
    }
}

fn classes_of(reference: &RunRecord, steps: usize) -> Vec<Vec<FaultAtAddress>> {
    let writes: Vec<&CallRecord> =
        reference.calls.iter().filter(|call| is_state_write(&call.target)).collect();
    let at_writes = |fault: Fault| -> Vec<FaultAtAddress> {
        writes.iter().map(|call| deviation(&call.address, fault.clone())).collect()
    };
    let with_version = writes.iter().filter(|call| call.traits.has_resource_version);
    let conflicts = with_version.map(|call| deviation(&call.address, Fault::Conflict)).collect();
    vec![
        at_writes(Fault::KillAfter),
        at_steps(steps),
        at_writes(Fault::TimeoutDone),
        at_events(reference),
        at_writes(Fault::Refuse { code: 500 }),
        at_writes(Fault::KillBefore),
        conflicts,
        at_writes(Fault::LoseAnswer),
        at_writes(Fault::Outage { milliseconds: OUTAGE_MILLISECONDS }),
        stale_lists(reference),
        at_reads(reference),
        at_writes(Fault::Refuse { code: 429 }),
        at_writes(Fault::LoseRequest),
        at_writes(Fault::TimeoutUndone),
    ]
}

fn deviation(at: &str, fault: Fault) -> FaultAtAddress {
    FaultAtAddress { at: at.to_owned(), fault }
}

/// Returns the faults at steps. Missing a deletion while down is the most common of these bugs, so the last steps come
/// first.
fn at_steps(steps: usize) -> Vec<FaultAtAddress> {
    let numbered = (1..=steps).map(|step| format!("step {step}"));
    let addresses: Vec<String> = numbered.chain(["cleanup".to_owned()]).collect();
    let down = addresses.iter().rev().map(|at| deviation(at, Fault::Down));
    let restart = addresses.iter().skip(1).map(|at| deviation(at, Fault::Restart));
    down.chain(restart).collect()
}

fn at_events(reference: &RunRecord) -> Vec<FaultAtAddress> {
    let faults = |at: &String| {
        [
            deviation(at, Fault::ExpireWatch),
            deviation(at, Fault::CutWatch),
            deviation(at, Fault::DelayWatch { milliseconds: DELAY_MILLISECONDS }),
        ]
    };
    reference.events.iter().flat_map(faults).collect()
}

/// Returns the stale lists. Only lists that accept any version can be stale.
fn stale_lists(reference: &RunRecord) -> Vec<FaultAtAddress> {
    let is_possible =
        |call: &&CallRecord| call.target.verb == RequestVerb::List && call.traits.takes_any_version;
    let lists = reference.calls.iter().filter(is_possible);
    lists
        .flat_map(|call| [1, 3].map(|changes| deviation(&call.address, Fault::StaleList { changes })))
        .collect()
}

/// Returns the faults at the first request with each name, because operators read the same way every time.
fn at_reads(reference: &RunRecord) -> Vec<FaultAtAddress> {
    let mut seen = BTreeSet::new();
    let reads = reference.calls.iter().filter(|call| !call.target.verb.is_write());
    let first = reads.filter(|call| seen.insert(address_of(&call.target)));
    let (objects, documents): (Vec<_>, Vec<_>) = first.partition(|call| is_about_objects(&call.target));
    let faults = |call: &&CallRecord| {
        [Fault::Refuse { code: 500 }, Fault::LoseRequest, Fault::Refuse { code: 429 }]
            .map(|fault| deviation(&call.address, fault))
    };
    objects.iter().chain(&documents).flat_map(faults).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_chooses_the_same_faults() {
        let singles: Vec<FaultAtAddress> =
            (1..9).map(|at| deviation(&format!("patch pods a/b #{at}"), Fault::KillAfter)).collect();
        let choose = |seed| {
            let entropy = Entropy::seeded(seed);
            (0..5).map(|_| random_faults(&singles, &entropy)).collect::<Vec<_>>()
        };
        assert_eq!(choose(1), choose(1));
        assert_ne!(choose(1), choose(2));
    }

    #[test]
    fn a_later_address_counts_on() {
        assert_eq!(later_address("patch pods a/b #1"), "patch pods a/b #2");
        assert_eq!(later_address("step 2"), "step 2");
    }
}
