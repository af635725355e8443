//! Bugs that reviews easily miss, each with its fix, in ordinary scenarios: the simulator gets no hints about them. The
//! zoo (`crates/zoo`) has bugs of real operators; these are further patterns, found by the same oracles.

mod absence;
mod deletion;
mod generated;
mod gone;
mod halves;
mod leftovers;
mod memory;
mod names;
mod progress;
mod rivals;
mod status;
mod time;

use homeostat_sim::{Budget, Simulation};

/// A sample of the single faults of these scenarios, which an unoptimized build runs in seconds.
const BROKEN: Budget = Budget { schedules: 131, seconds: 3600 };

/// A smaller sample for the cured versions, which includes the faults that reveal the bugs.
const CURED: Budget = Budget { schedules: 60, seconds: 3600 };

/// Checks that one of these oracles finds the bug of the broken version, and that the cured version raises no alarm.
#[track_caller]
fn check(broken: Simulation, cured: Simulation, oracles: &[&str]) {
    let failure = broken.budget(BROKEN).explore().failure.expect("the bug is found");
    assert!(oracles.contains(&&*failure.oracle), "{}", failure.report);
    if let Some(failure) = cured.budget(CURED).explore().failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}
