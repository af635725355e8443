//! Holds the state of a supervisor: all its runs, and the operations on them.
//!
//! **Invariant:** every change is first stored on disk and then sent to the node, under one lock, so that a node that
//! connects gets the whole state and then every later change.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_core::Clock;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::attach_point::{AttachPoint, Attached};
use super::container_run::{self, StopDeadline};
use super::node_layout::NodeLayout;
use super::protocol::{
    CommandOutcome, ContainerKey, ContainerLaunch, ContainerRunStatus, ContainerRuns, JoinTarget,
    ProcessSpec, RunExit, RunState, SupervisorEvent, SupervisorRequest,
};
use super::run_command;
use super::{run_records, stray_processes};
use crate::node::remove_folder;

/// The maximum number of changes waiting for the node. A node that falls further behind is disconnected and gets the
/// whole state when it reconnects.
const UNSENT_EVENTS_MAX: usize = 8192;

/// The maximum grace period: longer than anyone waits, and within the range of the clock.
const GRACE_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The supervisor's state.
pub(super) struct ProcessSupervisor {
    pub(super) layout: NodeLayout,
    pub(super) clock: Clock,
    pub(super) pid: i32,
    /// The limit on open files with which the supervisor was started.
    pub(super) open_files: u64,
    table: Mutex<RunTable>,
    /// Processes that this supervisor waits for, each with its run.
    started: Mutex<HashMap<i32, String>>,
    is_ending: AtomicBool,
    tasks: TaskTracker,
}

#[derive(Default)]
struct RunTable {
    entries: BTreeMap<ContainerKey, RunEntry>,
    node: Option<mpsc::Sender<SupervisorEvent>>,
}

struct RunEntry {
    runs: ContainerRuns,
    stop: watch::Sender<StopDeadline>,
    is_forgotten: bool,
    /// How its process was started; `None` for an earlier supervisor's process, which has exited.
    process: Option<ProcessSpec>,
    /// The point at which clients attach while it runs.
    attach_point: Option<AttachPoint>,
}

/// A container that is running.
pub(super) struct RunningProcess {
    pub(super) process: ProcessSpec,
    pub(super) target: JoinTarget,
}

impl ProcessSupervisor {
    pub(super) fn new(layout: NodeLayout, open_files: u64, known: Vec<ContainerRuns>) -> Self {
        let entry = |runs: ContainerRuns| RunEntry {
            runs,
            stop: watch::Sender::new(None),
            is_forgotten: false,
            process: None,
            attach_point: None,
        };
        let entries = known.into_iter().map(|runs| (runs.id.clone(), entry(runs))).collect();
        Self {
            layout,
            clock: Clock::system(),
            pid: i32::try_from(std::process::id()).unwrap_or_default(),
            open_files,
            table: Mutex::new(RunTable { entries, node: None }),
            started: Mutex::default(),
            is_ending: AtomicBool::new(false),
            tasks: TaskTracker::new(),
        }
    }

    /// Sends changes to this node from now on; the first message is the whole state.
    pub(super) fn connect_node(&self) -> mpsc::Receiver<SupervisorEvent> {
        let (sender, receiver) = mpsc::channel(UNSENT_EVENTS_MAX);
        let mut table = self.lock();
        let known = table.entries.values().map(|entry| entry.runs.clone()).collect();
        table.node = Some(sender);
        table.send_event(SupervisorEvent::Known(known));
        receiver
    }

    /// Handles any request from the node except the one to shut down.
    pub(super) fn handle_request(self: &Arc<Self>, request: SupervisorRequest) {
        match request {
            SupervisorRequest::Start(launch) => self.start(*launch),
            SupervisorRequest::Stop { id, grace_ms } => self.stop(&id, Duration::from_millis(grace_ms)),
            SupervisorRequest::Execute { ticket, id, process, limit_ms } => {
                self.execute(ticket, &id, *process, Duration::from_millis(limit_ms));
            }
            SupervisorRequest::Forget { pod } => self.forget_pod(&pod),
            SupervisorRequest::End { .. } => {}
        }
    }

    fn start(self: &Arc<Self>, launch: ContainerLaunch) {
        let mut table = self.lock();
        let before = table.entries.get(&launch.id).map(|entry| &entry.runs.current);
        if before.is_some_and(|run| run.attempt >= launch.attempt || !run.is_over()) {
            return;
        }
        let ContainerLaunch { attempt, strikes, interruptions, .. } = launch;
        let current = ContainerRunStatus { attempt, strikes, interruptions, state: RunState::Starting };
        let runs = ContainerRuns {
            id: launch.id.clone(),
            owner: launch.owner.clone(),
            current,
            previous: before.cloned(),
        };
        let (stop, stopped) = watch::channel(None);
        let recorded = fs::create_dir_all(self.layout.container(&launch.id))
            .and_then(|()| run_records::save(&self.layout, &runs));
        let entry = RunEntry {
            runs,
            stop,
            is_forgotten: false,
            process: Some(launch.process.clone()),
            attach_point: None,
        };
        table.entries.insert(launch.id.clone(), entry);
        match recorded {
            Ok(()) => drop(self.tasks.spawn(container_run::run(Arc::clone(self), launch, stopped))),
            Err(error) => self.record_refusal(&mut table, &launch.id, &error),
        }
    }

    /// Records that a run was refused because it could not be recorded: no process is started that could not be found
    /// again.
    fn record_refusal(&self, table: &mut RunTable, id: &ContainerKey, error: &io::Error) {
        let now = self.clock.now();
        let exit = RunExit::NotStarted(format!("cannot write the record of its runs: {error}"));
        if let Some(entry) = table.entries.get_mut(id) {
            entry.runs.current.state =
                RunState::Ended { started_at: now, finished_at: now, exit, message: None };
            let event = SupervisorEvent::Changed(Box::new(entry.runs.clone()));
            table.send_event(event);
        }
    }

    fn stop(&self, id: &ContainerKey, grace: Duration) {
        if let Some(entry) = self.lock().entries.get(id) {
            entry.stop_within(grace);
        }
    }

    fn execute(self: &Arc<Self>, ticket: u64, id: &ContainerKey, process: ProcessSpec, limit: Duration) {
        if self.lock().entries.get(id).is_some_and(|entry| entry.runs.current.is_over()) {
            // None of its processes is left, and none may be added.
            let words = "the container is not running".to_owned();
            let outcome = CommandOutcome { exit: RunExit::NotStarted(words.clone()), output: words };
            return self.lock().send_event(SupervisorEvent::Executed { ticket, outcome });
        }
        let supervisor = Arc::clone(self);
        let run = container_run::run_name(id);
        self.tasks.spawn(async move {
            let outcome = run_command::run(&supervisor, process, limit, &run).await;
            supervisor.lock().send_event(SupervisorEvent::Executed { ticket, outcome });
        });
    }

    fn forget_pod(&self, pod: &str) {
        let mut table = self.lock();
        let mut is_live = false;
        for (_, entry) in table.entries.range_mut(keys_of_pod(pod)).take_while(|(id, _)| id.pod == pod) {
            entry.is_forgotten = true;
            is_live |= !entry.runs.current.is_over();
            entry.stop_within(Duration::ZERO);
        }
        if !is_live {
            self.remove_pod(&mut table, pod);
        }
    }

    /// Records and reports a run's new state.
    pub(super) fn set_state(&self, id: &ContainerKey, state: RunState) {
        let mut table = self.lock();
        let Some(entry) = table.entries.get_mut(id) else { return };
        entry.runs.current.state = state;
        if entry.runs.current.is_over() {
            entry.attach_point = None;
        }
        if let Err(error) = run_records::save(&self.layout, &entry.runs) {
            eprintln!("cannot write the record of {}: {error}", id.container);
        }
        if entry.is_forgotten {
            return;
        }
        let event = SupervisorEvent::Changed(Box::new(entry.runs.clone()));
        table.send_event(event);
    }

    /// Removes a Pod's files if this was the last run of a Pod that is gone.
    pub(super) fn remove_pod_if_over(&self, id: &ContainerKey) {
        let mut table = self.lock();
        let mut rest = table.entries.range(keys_of_pod(&id.pod)).take_while(|(other, _)| other.pod == id.pod);
        if rest.all(|(_, entry)| entry.is_forgotten && entry.runs.current.is_over()) {
            self.remove_pod(&mut table, &id.pod);
        }
    }

    fn remove_pod(&self, table: &mut RunTable, pod: &str) {
        table.entries.retain(|id, _| id.pod != pod);
        if let Err(error) = remove_folder(&self.layout.pod(pod)) {
            eprintln!("cannot remove the files of Pod {pod}: {error}");
        }
    }

    /// Returns how a container was started, if it is running and has not been asked to stop.
    pub(super) fn running_container(&self, id: &ContainerKey) -> Option<RunningProcess> {
        let table = self.lock();
        let entry = table.entries.get(id).filter(|entry| !entry.is_forgotten)?;
        let RunState::Running { pid, started_ticks, .. } = entry.runs.current.state else { return None };
        Some(RunningProcess { process: entry.process.clone()?, target: JoinTarget { pid, started_ticks } })
    }

    /// Sets where clients attach to a container, as soon as it starts.
    pub(super) fn set_attach_point(&self, id: &ContainerKey, point: AttachPoint) {
        if let Some(entry) = self.lock().entries.get_mut(id) {
            entry.attach_point = Some(point);
        }
    }

    /// Attaches a client to a container, if it is running.
    pub(super) fn attach(&self, id: &ContainerKey) -> Option<Attached> {
        let table = self.lock();
        let entry = table.entries.get(id).filter(|entry| entry.runs.current.is_running())?;
        Some(entry.attach_point.as_ref()?.attach())
    }

    /// Returns the processes that this supervisor waits for, each with its run.
    pub(super) fn started(&self) -> MutexGuard<'_, HashMap<i32, String>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether containers are being stopped because the supervisor is shutting down.
    pub(super) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Stops all containers and waits for them.
    pub(super) async fn stop_all(&self, grace: Duration) {
        self.is_ending.store(true, Ordering::Relaxed);
        for entry in self.lock().entries.values() {
            entry.stop_within(grace);
        }
        self.tasks.close();
        self.tasks.wait().await;
        stray_processes::end_all(self).await;
    }

    fn lock(&self) -> MutexGuard<'_, RunTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunTable {
    fn send_event(&mut self, event: SupervisorEvent) {
        if let Some(node) = &self.node
            && node.try_send(event).is_err()
        {
            self.node = None;
        }
    }
}

impl RunEntry {
    /// Sets a deadline. A later stop can only shorten it.
    fn stop_within(&self, grace: Duration) {
        let asked = Instant::now() + grace.min(GRACE_MAX);
        self.stop.send_if_modified(|deadline| {
            let is_stricter = deadline.is_none_or(|deadline| asked < deadline);
            if is_stricter {
                *deadline = Some(asked);
            }
            is_stricter
        });
    }
}

/// Returns where a Pod's entries begin.
fn keys_of_pod(pod: &str) -> std::ops::RangeFrom<ContainerKey> {
    ContainerKey { pod: pod.to_owned(), container: String::new() }..
}
