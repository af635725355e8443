//! Bugs of the sort that reviews miss, each with its cure, in ordinary scenarios: the simulator is told nothing about them. The zoo
//! (`crates/zoo`) has bugs that real operators had; these are further patterns, with the same oracles.

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

/// A smaller one: each cured operator survives the faults that reveal the bug.
const CURED: Budget = Budget { schedules: 60, seconds: 3600 };

/// One of these oracles finds the broken operator; none complains of the cured one.
#[track_caller]
fn check(broken: Simulation, cured: Simulation, oracles: &[&str]) {
    let failure = broken.budget(BROKEN).explore().failure.expect("the bug is found");
    assert!(oracles.contains(&&*failure.oracle), "{}", failure.report);
    if let Some(failure) = cured.budget(CURED).explore().failure {
        panic!("a false alarm:\n{}", failure.report);
    }
}
