//! The life of one run: started, watched, told to end, killed, recorded.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::child::{self, exit_of};
use super::execute;
use super::log::{self, LogFile};
use super::process::{signal_group, started_ticks};
use super::protocol::{Exit, Launch, Process, State};
use super::table::Keeper;

/// How long the pipe may stay open after the process and its group are gone: only a process that left the group on
/// purpose holds it.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// When the process must be gone; none while it may run.
pub(super) type Deadline = Option<Instant>;

/// Runs it to its end. The keeper's table says how it goes.
pub(super) async fn run(keeper: Arc<Keeper>, launch: Launch, stop: watch::Receiver<Deadline>) {
    let id = launch.id.clone();
    let mut started_at = keeper.clock.now();
    let exit = match start(&keeper, &launch).await {
        Err(words) => Exit::NotStarted(words),
        Ok(running) => {
            started_at = keeper.clock.now();
            let ticks = started_ticks(running.pid).unwrap_or_default();
            keeper.set(&id, State::Running { pid: running.pid, started_ticks: ticks, started_at });
            running.watch(&keeper, launch, stop).await
        }
    };
    let finished_at = keeper.clock.now();
    keeper.set(&id, State::Ended { started_at, finished_at, exit });
    keeper.settle(&id);
}

struct Running {
    child: Child,
    pid: i32,
    copy: JoinHandle<()>,
}

async fn start(keeper: &Keeper, launch: &Launch) -> Result<Running, String> {
    let path = keeper.layout.log(&launch.id, launch.attempt);
    let log = LogFile::create(path).map_err(|error| format!("cannot write its log: {error}"))?;
    drop_old_logs(keeper, launch);
    let started = child::start(keeper, launch.process.clone()).await?;
    let copy = tokio::spawn(log::copy(started.output, log, keeper.clock));
    Ok(Running { child: started.child, pid: started.pid, copy })
}

/// The run before the last is nobody's previous one.
fn drop_old_logs(keeper: &Keeper, launch: &Launch) {
    if let Some(old) = launch.attempt.checked_sub(2) {
        let path = keeper.layout.log(&launch.id, old);
        let _ = fs::remove_file(log::set_aside(&path));
        let _ = fs::remove_file(path);
    }
}

impl Running {
    async fn watch(mut self, keeper: &Keeper, launch: Launch, mut stop: watch::Receiver<Deadline>) -> Exit {
        let mut hook = launch.before_stop.map(|command| Process { command, ..launch.process });
        let mut is_told = false;
        let exit = loop {
            let deadline = *stop.borrow_and_update();
            if let (Some(deadline), false) = (deadline, is_told) {
                is_told = true;
                tokio::select! {
                    () = prepare(keeper, hook.take(), deadline) => signal_group(self.pid, Signal::TERM),
                    _ = stop.changed() => signal_group(self.pid, Signal::TERM),
                }
                continue;
            }
            tokio::select! {
                status = self.child.wait() => break exit_of(status),
                Ok(()) = stop.changed() => {}
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    signal_group(self.pid, Signal::KILL);
                    break exit_of(self.child.wait().await);
                }
            }
        };
        // Children that did not end with the command. The number cannot belong to others yet: the kernel hands out all
        // other numbers first.
        signal_group(self.pid, Signal::KILL);
        if timeout(LAST_WORDS, &mut self.copy).await.is_err() {
            self.copy.abort();
        }
        exit
    }
}

/// What the container wants done before it is told to end.
async fn prepare(keeper: &Keeper, hook: Option<Process>, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    if let (Some(hook), false) = (hook, left.is_zero()) {
        execute::run(keeper, hook, left).await;
    }
}
