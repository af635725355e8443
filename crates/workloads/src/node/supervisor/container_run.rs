//! Manages one container run from start to finish: starts, watches, stops, kills and records it.

use std::fs;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::attach_point::AttachPoint;
use super::child_process::{self, ProcessLaunch, WaitGuard, exit_of};
use super::log_file::{self, LogFile};
use super::process::{signal_group, started_ticks};
use super::process_io::{ProcessIo, ProcessStdio};
use super::process_supervisor::ProcessSupervisor;
use super::protocol::{
    CommandOutcome, ContainerKey, ContainerLaunch, LifecycleHook, ProcessSpec, RunExit, RunState,
};
use super::{run_command, stray_processes, termination_message};

/// How long the pipe may stay open after the process, its group and its strays are gone.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a postStart hook may take. Kubernetes waits forever; here the container would never be reported as running.
const AFTER_START_LIMIT: Duration = Duration::from_secs(300);

/// The time by which the process must be gone; `None` while it may run.
pub(super) type StopDeadline = Option<Instant>;

/// Returns the name by which a container's processes are marked.
pub(super) fn run_name(id: &ContainerKey) -> String {
    format!("{}/{}", id.pod, id.container)
}

/// Runs the container to completion. The supervisor's table shows its state.
pub(super) async fn run(
    supervisor: Arc<ProcessSupervisor>,
    launch: ContainerLaunch,
    stop: watch::Receiver<StopDeadline>,
) {
    let id = launch.id.clone();
    let source = termination_message::MessageSource {
        id: id.clone(),
        attempt: launch.attempt,
        falls_back_to_log: launch.falls_back_to_log,
    };
    let mut started_at = supervisor.clock.now();
    let exit = match start(&supervisor, &launch).await {
        Err(words) => RunExit::NotStarted(words),
        Ok(running) => {
            started_at = supervisor.clock.now();
            running.run_to_end(&supervisor, launch, stop, started_at).await
        }
    };
    let finished_at = supervisor.clock.now();
    let message = termination_message::read(&supervisor.layout, &source, &exit);
    supervisor.set_state(&id, RunState::Ended { started_at, finished_at, exit, message });
    supervisor.remove_pod_if_over(&id);
}

struct RunningContainer<'a> {
    child: Child,
    pid: i32,
    copy: JoinHandle<()>,
    awaited: WaitGuard<'a>,
}

async fn start<'a>(
    supervisor: &'a ProcessSupervisor,
    launch: &ContainerLaunch,
) -> Result<RunningContainer<'a>, String> {
    let path = supervisor.layout.log(&launch.id, launch.attempt);
    let log = LogFile::create(path).map_err(|error| format!("cannot write its log: {error}"))?;
    drop_old_logs(supervisor, launch);
    termination_message::clear(&supervisor.layout, &launch.id);
    let stdio = if launch.streams.tty {
        ProcessStdio::Terminal
    } else {
        ProcessStdio::Joined { has_input: launch.streams.stdin }
    };
    let process = ProcessLaunch { stdio, ..ProcessLaunch::plain(launch.process.clone()) };
    let started = child_process::start(supervisor, process, &run_name(&launch.id)).await?;
    let ProcessIo { input, output, terminal, .. } = started.io;
    let point = AttachPoint::new(launch.streams, input, terminal);
    let copy = tokio::spawn(log_file::copy_to_log(output, log, point.copies(), supervisor.clock));
    supervisor.set_attach_point(&launch.id, point);
    Ok(RunningContainer { child: started.child, pid: started.pid, copy, awaited: started.awaited })
}

/// Removes the logs of the run before the previous one, which are no longer shown anywhere.
fn drop_old_logs(supervisor: &ProcessSupervisor, launch: &ContainerLaunch) {
    if let Some(old) = launch.attempt.checked_sub(2) {
        let path = supervisor.layout.log(&launch.id, old);
        let _ = fs::remove_file(log_file::rotated_path(&path));
        let _ = fs::remove_file(path);
    }
}

impl RunningContainer<'_> {
    /// Runs hooks, waits for the exit or a stop, and stops any remaining processes.
    async fn run_to_end(
        mut self,
        supervisor: &ProcessSupervisor,
        launch: ContainerLaunch,
        mut stop: watch::Receiver<StopDeadline>,
        started_at: jiff::Timestamp,
    ) -> RunExit {
        let ContainerLaunch { id, process, after_start, before_stop, .. } = launch;
        let beside = |hook| HookRun { run: run_name(&id), process: process.clone(), hook };
        let failed = self.run_start_hook(supervisor, after_start.map(beside), &mut stop).await;
        let exit = if let Some(exit) = failed {
            exit
        } else {
            let started_ticks = started_ticks(self.pid).unwrap_or_default();
            supervisor.set_state(&id, RunState::Running { pid: self.pid, started_ticks, started_at });
            self.wait_for_exit(supervisor, before_stop.map(beside), &mut stop).await
        };
        // Kills children that did not exit with the command. Their group ID cannot have been reused yet: the kernel
        // assigns all other numbers first.
        signal_group(self.pid, Signal::KILL);
        drop(self.awaited);
        stray_processes::end_strays_of(supervisor, &run_name(&id), self.pid).await;
        if timeout(LAST_WORDS, &mut self.copy).await.is_err() {
            self.copy.abort();
        }
        if supervisor.is_ending() && stop.borrow().is_some() { RunExit::NodeStopped } else { exit }
    }

    /// Runs the postStart hook. Returns an exit if the container did not survive it.
    async fn run_start_hook(
        &mut self,
        supervisor: &ProcessSupervisor,
        hook: Option<HookRun>,
        stop: &mut watch::Receiver<StopDeadline>,
    ) -> Option<RunExit> {
        let hook = hook?;
        let is_command = matches!(hook.hook, LifecycleHook::Execute(_));
        let executed = tokio::select! {
            executed = hook.run(supervisor, AFTER_START_LIMIT) => executed,
            status = self.child.wait() => return Some(exit_of(&status)),
            // The change is marked as unseen, so that the stop is handled next.
            Ok(()) = stop.changed() => {
                stop.mark_changed();
                return None;
            }
        };
        if executed.exit.is_success() {
            return None;
        }
        signal_group(self.pid, Signal::KILL);
        let _ = self.child.wait().await;
        let said = executed.output.trim_end();
        Some(RunExit::HookFailed(match executed.exit {
            RunExit::Code(code) if is_command => format!("command exited with {code}: {said}"),
            _ => said.to_owned(),
        }))
    }

    async fn wait_for_exit(
        &mut self,
        supervisor: &ProcessSupervisor,
        mut hook: Option<HookRun>,
        stop: &mut watch::Receiver<StopDeadline>,
    ) -> RunExit {
        let mut is_told = false;
        loop {
            let deadline = *stop.borrow_and_update();
            if let (Some(deadline), false) = (deadline, is_told) {
                is_told = true;
                if let Some(hook) = hook.take() {
                    run_stop_hook(supervisor, hook, deadline, stop).await;
                }
                signal_group(self.pid, Signal::TERM);
                continue;
            }
            tokio::select! {
                status = self.child.wait() => return exit_of(&status),
                Ok(()) = stop.changed() => stop.mark_changed(),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    signal_group(self.pid, Signal::KILL);
                    return exit_of(&self.child.wait().await);
                }
            }
        }
    }
}

/// A hook, and the container it belongs to.
struct HookRun {
    run: String,
    process: ProcessSpec,
    hook: LifecycleHook,
}

impl HookRun {
    async fn run(self, supervisor: &ProcessSupervisor, limit: Duration) -> CommandOutcome {
        let done = match self.hook {
            LifecycleHook::Execute(command) => {
                return run_command::run(supervisor, self.process.with_command(command), limit, &self.run)
                    .await;
            }
            LifecycleHook::Sleep { seconds } => {
                sleep(Duration::from_secs(seconds).min(limit)).await;
                Ok(())
            }
            LifecycleHook::Get(request) => timeout(limit, request.send())
                .await
                .unwrap_or_else(|_| Err(format!("no answer within {limit:?}"))),
        };
        match done {
            Ok(()) => CommandOutcome { exit: RunExit::Code(0), output: String::new() },
            Err(output) => CommandOutcome { exit: RunExit::Code(1), output },
        }
    }
}

/// Runs the preStop hook, at most until the deadline. A further request to stop may bring the deadline forward; it does
/// not end the hook by itself, because the node repeats its request whenever the Pod changes.
async fn run_stop_hook(
    supervisor: &ProcessSupervisor,
    hook: HookRun,
    mut deadline: Instant,
    stop: &mut watch::Receiver<StopDeadline>,
) {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return;
    }
    let mut running = pin!(hook.run(supervisor, left));
    loop {
        tokio::select! {
            _ = &mut running => return,
            () = sleep_until(deadline) => return,
            Ok(()) = stop.changed() => deadline = stop.borrow_and_update().unwrap_or(deadline),
        }
    }
}
