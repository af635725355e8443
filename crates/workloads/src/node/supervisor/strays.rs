//! Processes that left their container's process group: daemons, mostly. Their parents end and the kernel gives them to the
//! keeper, which asked for that; here it finds them.
//!
//! **Invariant:** a run is over only when nothing of it is left, and a keeper ends only when it has no children. A process is
//! told by any of three signs: the brand, which it cannot lose, the mark in its environment, and its session. Only processes
//! that nobody else waits for are waited for here.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::signal::unix::{SignalKind, signal as listen};
use tokio::time::sleep;

use super::process::{children, has_mark, session, signal};
use super::process_supervisor::ProcessSupervisor;
use super::{RUN_MARK, process_tag, system};

/// Between two looks at what was killed: it needs a moment to die.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// After so many looks (10 s) what is left hangs in the kernel; it ends when that lets it go, and the guard looks on.
const LOOKS_MAX: u32 = 5000;
/// Between two harvests of ended strays. A container may make hundreds in a second; the machine has room for thousands.
const HARVEST_PAUSE: Duration = Duration::from_millis(100);

/// What tells the processes of one run.
struct ProcessMarks {
    mark: String,
    brand: u64,
    session: i32,
}

impl ProcessMarks {
    fn fit(&self, pid: i32) -> bool {
        system::brand_of(pid) == Some(self.brand)
            || session(pid) == Some(self.session)
            || has_mark(pid, &self.mark)
    }
}

/// Ends everything that is left of a run whose first process, the leader of its session, has ended.
pub(super) async fn end(keeper: &ProcessSupervisor, run: &str, leader: i32) {
    let mark = format!("{RUN_MARK}={run}");
    let signs = ProcessMarks { mark, brand: process_tag::of_run(keeper.layout.root(), run), session: leader };
    until_none(|| {
        reap(keeper);
        let mut found = adopted(keeper);
        found.retain(|pid| signs.fit(*pid));
        // Commands beside it: whoever waits for them lets them go.
        found.extend(keeper.started().iter().filter(|(_, of)| *of == run).map(|(pid, _)| *pid));
        found
    })
    .await;
}

/// Ends all strays.
pub(super) async fn end_all(keeper: &ProcessSupervisor) {
    until_none(|| {
        reap(keeper);
        adopted(keeper)
    })
    .await;
}

/// Kills what is found, with all its descendants, until nothing is. What dies leaves its children to us, and they are
/// found next.
pub(super) async fn until_none(mut find: impl FnMut() -> Vec<i32>) {
    for _ in 0..LOOKS_MAX {
        let found = find();
        if found.is_empty() {
            return;
        }
        kill_families(found);
        sleep(LOOK_PAUSE).await;
    }
    eprintln!("processes do not die: {:?}", find());
}

/// Kills processes and their descendants. Each is stopped before its children are read, so that it makes no more of them.
pub(super) fn kill_families(mut family: Vec<i32>) {
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
pub(super) async fn harvest(keeper: &ProcessSupervisor) -> io::Result<()> {
    let mut ended = listen(SignalKind::child())?;
    while ended.recv().await.is_some() {
        reap(keeper);
        sleep(HARVEST_PAUSE).await;
    }
    Ok(())
}

/// Lets strays that ended go.
fn reap(keeper: &ProcessSupervisor) {
    for pid in adopted(keeper).into_iter().filter_map(Pid::from_raw) {
        // Not ended yet, or gone already: either is fine.
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Our children that we did not start.
fn adopted(keeper: &ProcessSupervisor) -> Vec<i32> {
    let all = children(keeper.pid);
    let started = keeper.started();
    all.into_iter().filter(|pid| !started.contains_key(pid)).collect()
}
