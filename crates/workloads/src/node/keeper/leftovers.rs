//! What a killed keeper left: records of runs that nobody watches, and perhaps processes that escaped its death.
//!
//! **Invariant:** when the next keeper serves, no process of an earlier one is alive and no record claims to run.

use jiff::Timestamp;
use rustix::process::Signal;

use super::MARK;
use super::layout::Layout;
use super::process::{signal, signal_group, started_ticks, with_mark};
use super::protocol::{Exit, Run, Runs, State};
use super::record;

/// Kills what is left and gives the records as they are true then.
pub(super) fn settle(layout: &Layout, now: Timestamp) -> Vec<Runs> {
    let mut all = record::load_all(layout);
    for runs in &mut all {
        if runs.current.is_over() {
            continue;
        }
        end(&mut runs.current, now);
        if let Err(error) = record::save(layout, runs) {
            eprintln!("cannot write the record of {}: {error}", runs.id.container);
        }
    }
    kill_marked(layout);
    all
}

fn end(run: &mut Run, now: Timestamp) {
    let mut began = now;
    if let State::Running { pid, started_ticks: ticks, started_at } = run.state {
        began = started_at;
        if started_ticks(pid) == Some(ticks) {
            signal_group(pid, Signal::KILL);
        }
    }
    run.state = State::Ended { started_at: began, finished_at: now, exit: Exit::Lost };
}

/// Processes that left their group and outlived their parents still carry the node's mark.
fn kill_marked(layout: &Layout) {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    for pid in with_mark(MARK, layout.root()).unwrap_or_default() {
        if pid != own {
            signal(pid, Signal::KILL);
        }
    }
}
