//! Stray processes: those that left the process group of their container, mostly daemons. When their parents end, the
//! kernel hands them to the supervisor, which asked for that; this module finds and ends them.
//!
//! **Invariant:** a run is over only when nothing of it is left, and a supervisor ends only when it has no children. A
//! process is recognized by any of three marks: the process tag, which it cannot lose, the variable in its environment,
//! and its session. Only processes that nobody else waits for are reaped here.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::time::sleep;

use super::process::{children, has_variable, session, signal};
use super::process_supervisor::ProcessSupervisor;
use super::{RUN_VARIABLE, process_tag, system};

/// Between two looks at what was killed: it needs a moment to die.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// After so many looks (10 s) what is left hangs in the kernel; it ends when that lets it go, and the guard looks on.
const LOOKS_MAX: u32 = 5000;
/// Between two harvests of ended strays. A container may make hundreds in a second; the machine has room for thousands.
const HARVEST_PAUSE: Duration = Duration::from_millis(100);

/// What tells the processes of one run.
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

/// Ends everything that is left of a run whose first process, the leader of its session, has ended.
pub(super) async fn end_strays_of(supervisor: &ProcessSupervisor, run: &str, leader: i32) {
    let mark = format!("{RUN_VARIABLE}={run}");
    let signs =
        ProcessMarks { mark, tag: process_tag::of_run(supervisor.layout.root(), run), session: leader };
    kill_until_none(|| {
        reap(supervisor);
        let mut found = adopted(supervisor);
        found.retain(|pid| signs.match_process(*pid));
        // Commands beside it: whoever waits for them lets them go.
        found.extend(supervisor.started().iter().filter(|(_, of)| *of == run).map(|(pid, _)| *pid));
        found
    })
    .await;
}

/// Ends all strays.
pub(super) async fn end_all(supervisor: &ProcessSupervisor) {
    kill_until_none(|| {
        reap(supervisor);
        adopted(supervisor)
    })
    .await;
}

/// Kills what is found, with all its descendants, until nothing is. What dies leaves its children to us, and they are
/// found next.
pub(super) async fn kill_until_none(mut find: impl FnMut() -> Vec<i32>) {
    for _ in 0..LOOKS_MAX {
        let found = find();
        if found.is_empty() {
            return;
        }
        kill_process_trees(found);
        sleep(LOOK_PAUSE).await;
    }
    eprintln!("these processes do not end although they were killed: {:?}", find());
}

/// Kills processes and their descendants. Each is stopped before its children are read, so that it makes no more of them.
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

/// Lets strays go as they end, for as long as it is polled: a container that runs for months may make one every second.
pub(super) async fn reap_until_stopped(supervisor: &ProcessSupervisor) -> io::Result<()> {
    let mut ended = listen(SignalKind::child())?;
    while ended.recv().await.is_some() {
        reap(supervisor);
        sleep(HARVEST_PAUSE).await;
    }
    Ok(())
}

/// Lets strays that ended go.
fn reap(supervisor: &ProcessSupervisor) {
    for pid in adopted(supervisor).into_iter().filter_map(Pid::from_raw) {
        // Not ended yet, or gone already: either is fine.
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Our children that we did not start.
fn adopted(supervisor: &ProcessSupervisor) -> Vec<i32> {
    let all = children(supervisor.pid);
    let started = supervisor.started();
    all.into_iter().filter(|pid| !started.contains_key(pid)).collect()
}
