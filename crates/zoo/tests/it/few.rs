//! One animal for each way to find a bug: without any fault, by a crash, by an old cache, by a deletion, and in an
//! external system.

use homeostat::sim::Budget;
use homeostat_zoo::ANIMALS;
use homeostat_zoo::hunt::{HuntResult, Settings, hunt};

/// Enough for every single fault of these animals. There is no limit in real time, so that a busy machine finds the
/// same.
const BROKEN: Budget = Budget { schedules: 400, seconds: 3600 };

/// What an unoptimized build can run in some seconds.
const CURED_SCHEDULES: u64 = 60;

#[track_caller]
fn check(name: &str, oracle: &str) -> HuntResult {
    let animal = ANIMALS.iter().find(|animal| animal.name == name).expect("an animal of this name");
    let settings = Settings { broken: BROKEN, ..Settings::with_seed(1) }.cured_schedules(CURED_SCHEDULES);
    let hunt = hunt(animal, settings);
    if let Some(alarm) = &hunt.alarm {
        panic!("a false alarm:\n{}", alarm.report);
    }
    let failure = hunt.failure.as_ref().expect("the bug is found");
    assert_eq!(failure.oracle, oracle, "{}", failure.report);
    assert!(failure.steps() <= 10, "{}", failure.report);
    hunt
}

#[test]
fn a_clock_in_the_status_is_found_without_any_fault() {
    assert_eq!(check("clock_in_the_status", "quiet at rest").schedules, 2);
}

#[test]
fn a_torn_pair_is_found_by_a_crash() {
    check("torn_pair", "same end");
}

#[test]
fn a_toggled_child_is_found_by_an_old_cache() {
    check("toggled_child", "justified deletion");
}

#[test]
fn an_unwatched_child_is_found_by_deleting_it() {
    check("unwatched_child", "same end");
}

#[test]
fn an_orphan_outside_is_found_outside() {
    check("orphan_outside", "same end");
}
