//! Cleans up after a supervisor that was killed: records of runs that are no longer watched, and processes if its guard
//! was also killed.
//!
//! **Invariant:** when the next supervisor starts to serve, no process of an earlier one is alive, and no record says
//! that a run is still running.

use jiff::Timestamp;
use rustix::process::Signal;

use super::NODE_VARIABLE;
use super::node_layout::NodeLayout;
use super::process::{all_processes, has_variable, signal_group, started_ticks};
use super::protocol::{ContainerRunStatus, ContainerRuns, RunExit, RunState};
use super::{process_tag, run_records, stray_processes, system};

/// Kills the remaining processes and returns the corrected records.
pub(super) async fn clean_up(layout: &NodeLayout, now: Timestamp) -> Vec<ContainerRuns> {
    let mut known = run_records::load_all(layout);
    for runs in &mut known {
        if runs.current.is_over() {
            continue;
        }
        end_run(&mut runs.current, now);
        if let Err(error) = run_records::save(layout, runs) {
            eprintln!("cannot write the record of {}: {error}", runs.id.container);
        }
    }
    kill_marked(layout).await;
    known
}

fn end_run(run: &mut ContainerRunStatus, now: Timestamp) {
    let mut began = now;
    if let RunState::Running { pid, started_ticks: ticks, started_at } = run.state {
        began = started_at;
        if started_ticks(pid) == Some(ticks) {
            signal_group(pid, Signal::KILL);
        }
    }
    run.state = RunState::Ended { started_at: began, finished_at: now, exit: RunExit::Lost, message: None };
}

/// Kills every process that carries the node's tag or its variable.
async fn kill_marked(layout: &NodeLayout) {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let mark = format!("{NODE_VARIABLE}={}", process_tag::name_of_node(layout.root()));
    let is_ours = |pid: i32| {
        system::tag_of(pid).is_some_and(|tag| process_tag::is_of_folder(tag, layout.root()))
            || has_variable(pid, &mark)
    };
    stray_processes::kill_until_none(|| {
        all_processes().into_iter().filter(|pid| *pid != own && is_ours(*pid)).collect()
    })
    .await;
}
