//! Stops stray processes: those that left their container's process group, mostly daemons. When their parents exit, the
//! kernel reparents them to the supervisor, which requested that.
//!
//! **Invariant:** a run is over only when none of its processes is left, and a supervisor exits only when it has no
//! children. A process is recognized by any of three marks: the process tag, which it cannot lose, the variable in its
//! environment, and its session. Only processes that no other task waits for are reaped here.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::time::sleep;

use super::process::{children, has_variable, session, signal};
use super::process_supervisor::ProcessSupervisor;
use super::{RUN_VARIABLE, process_tag, system};

/// The pause between two checks of killed processes, which need a moment to die.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// The number of checks (10 s) after which the remaining processes must be hanging in the kernel; they exit when it
/// releases them, and the guard keeps checking.
const LOOKS_MAX: u32 = 5000;
/// The pause between two rounds of reaping. A container may leave hundreds per second; the machine has room for
/// thousands.
const HARVEST_PAUSE: Duration = Duration::from_millis(100);

/// The marks by which one run's processes are recognized.
struct ProcessMarks {
    mark: String,
    tag: u64,
    session: i32,
}

impl ProcessMarks {
    fn match_process(&self, pid: i32) -> bool {
        system::tag_of(pid) == Some(self.tag)
            || session(pid) == Some(self.session)
            || has_variable(pid, &self.mark)
    }
}

/// Stops everything left of a run whose first process, its session's leader, has exited.
pub(super) async fn end_strays_of(supervisor: &ProcessSupervisor, run: &str, leader: i32) {
    let mark = format!("{RUN_VARIABLE}={run}");
    let signs =
        ProcessMarks { mark, tag: process_tag::of_run(supervisor.layout.root(), run), session: leader };
    kill_until_none(|| {
        reap(supervisor);
        let mut found = adopted(supervisor);
        found.retain(|pid| signs.match_process(*pid));
        // This includes commands alongside the container: their waiters are notified that they have exited.
        found.extend(supervisor.started().iter().filter(|(_, of)| *of == run).map(|(pid, _)| *pid));
        found
    })
    .await;
}

/// Stops all strays.
pub(super) async fn end_all(supervisor: &ProcessSupervisor) {
    kill_until_none(|| {
        reap(supervisor);
        adopted(supervisor)
    })
    .await;
}

/// Kills the processes that `find` returns, with all their descendants, until it returns none. A dying process leaves
/// its children to us, and the next check finds them.
pub(super) async fn kill_until_none(mut find: impl FnMut() -> Vec<i32>) {
    for _ in 0..LOOKS_MAX {
        let found = find();
        if found.is_empty() {
            return;
        }
        kill_process_trees(found);
        sleep(LOOK_PAUSE).await;
    }
    eprintln!("these processes were killed and do not end: {:?}", find());
}

/// Kills processes and their descendants. Each is stopped before its children are read, so that it cannot create more.
pub(super) fn kill_process_trees(mut family: Vec<i32>) {
    let mut next = 0;
    while let Some(pid) = family.get(next).copied() {
        signal(pid, Signal::STOP);
        family.extend(children(pid));
        next += 1;
    }
    for pid in family {
        signal(pid, Signal::KILL);
    }
}

/// Reaps strays as they exit, for as long as it is polled: a container that runs for months may leave one every second.
pub(super) async fn reap_until_stopped(supervisor: &ProcessSupervisor) -> io::Result<()> {
    let mut ended = listen(SignalKind::child())?;
    while ended.recv().await.is_some() {
        reap(supervisor);
        sleep(HARVEST_PAUSE).await;
    }
    Ok(())
}

/// Reaps the strays that have exited.
fn reap(supervisor: &ProcessSupervisor) {
    for pid in adopted(supervisor).into_iter().filter_map(Pid::from_raw) {
        // The process has not exited yet, or has already been reaped: either is fine.
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Returns our children that we did not start.
fn adopted(supervisor: &ProcessSupervisor) -> Vec<i32> {
    let all = children(supervisor.pid);
    let started = supervisor.started();
    all.into_iter().filter(|pid| !started.contains_key(pid)).collect()
}
