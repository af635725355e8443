//! Processes that left their container's process group: daemons, mostly. Their parents end and the kernel gives them to the
//! keeper, which asked for that; here it finds them.
//!
//! **Invariant:** a run's strays end with the run, told apart by the mark in their environment, and whatever is left ends
//! with the keeper. Only processes that nobody else waits for are waited for here.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions};

use super::RUN_MARK;
use super::process::{has_mark, signal};
use super::table::Keeper;

/// Ends the strays of one run.
pub(super) fn end(keeper: &Keeper, run: &str) {
    let mark = format!("{RUN_MARK}={run}");
    for pid in adopted(keeper).into_iter().filter(|pid| has_mark(*pid, &mark)) {
        signal(pid, Signal::KILL);
    }
    reap(keeper);
}

/// Ends all strays.
pub(super) fn end_all(keeper: &Keeper) {
    for pid in adopted(keeper) {
        signal(pid, Signal::KILL);
    }
}

/// Lets strays that ended go.
pub(super) fn reap(keeper: &Keeper) {
    for pid in adopted(keeper).into_iter().filter_map(Pid::from_raw) {
        // Not ended yet, or gone already: either is fine.
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Our children that we did not start.
fn adopted(keeper: &Keeper) -> Vec<i32> {
    let path = format!("/proc/self/task/{}/children", keeper.pid);
    let text = fs::read_to_string(path).unwrap_or_default();
    let started = keeper.started();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| !started.contains(pid)).collect()
}
