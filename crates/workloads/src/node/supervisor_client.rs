//! Implements the node's side of the connection to its supervisor: a copy of all runs, outgoing requests, and triggers
//! for changes.
//!
//! **Invariant:** the copy holds the state that the supervisor last reported, and every change to it triggers its Pod.
//! A lost supervisor is restarted, and its report replaces the copy. The next reconcile repeats requests that were lost
//! in transit, because requests may be repeated.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_runtime::ObjectName;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::error::Error;
use super::supervisor::node_layout::NodeLayout;
use super::supervisor::protocol::{
    CommandOutcome, ContainerKey, ContainerRuns, PodName, ProcessSpec, RunExit, SupervisorEvent,
    SupervisorRequest,
};
use super::supervisor::{GUARD, system, was_started_as_helper};

/// The maximum number of requests waiting to be written: more than a thousand Pods need at the same time.
const REQUESTS_MAX: usize = 8192;
/// How long a supervisor may take to respond after its start; it may have to wait for an earlier one to stop its
/// containers.
const START_LIMIT: Duration = Duration::from_secs(70);
/// The pause between two attempts to reach a supervisor that is starting.
const START_PAUSE: Duration = Duration::from_millis(10);
/// The pause after a supervisor could not be started.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for the result of a command alongside a container, beyond its own limit.
const ANSWER_SLACK: Duration = Duration::from_secs(5);

/// How a supervisor is started.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorCommand {
    pub(crate) program: PathBuf,
    pub(crate) layout: NodeLayout,
    pub(crate) outlives_server: Duration,
    pub(crate) is_ephemeral: bool,
}

/// The runs of one Pod, by container.
pub(crate) type PodRuns = BTreeMap<String, ContainerRuns>;

/// The shared half of the connection.
pub(crate) struct SupervisorClient {
    state: Mutex<HashMap<String, PodRuns>>,
    requests: mpsc::Sender<SupervisorRequest>,
    triggers: mpsc::Sender<ObjectName>,
    tickets: AtomicU64,
    executions: Mutex<HashMap<u64, oneshot::Sender<CommandOutcome>>>,
    /// Pods that the supervisor was asked to forget: one request is enough, and its further reports about them are
    /// ignored.
    forgotten: Mutex<HashSet<String>>,
}

/// The half that reads and writes lines, in a task of the node.
pub(crate) struct SupervisorConnection {
    supervisor: Arc<SupervisorClient>,
    supervisor_command: SupervisorCommand,
    requests: mpsc::Receiver<SupervisorRequest>,
    stream: SupervisorStream,
}

struct SupervisorStream {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
    child: Option<Child>,
}

impl SupervisorClient {
    /// Connects to the folder's supervisor, or starts one. The [`SupervisorConnection`] handles everything after that.
    pub(crate) async fn connect(
        supervisor_command: SupervisorCommand,
        triggers: mpsc::Sender<ObjectName>,
    ) -> Result<(Arc<Self>, SupervisorConnection), Error> {
        if was_started_as_helper() {
            let why = "this program was started as a node's helper, but did not act as one: call run_node_helper() first in main";
            return Err(Error::Supervisor(why.to_owned()));
        }
        let mut stream = connect_or_start(&supervisor_command)
            .await
            .map_err(|error| Error::Supervisor(error.to_string()))?;
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        let supervisor = Arc::new(Self {
            state: Mutex::default(),
            requests: sender,
            triggers,
            tickets: AtomicU64::new(0),
            executions: Mutex::default(),
            forgotten: Mutex::default(),
        });
        // The first line is the whole state, and reconciles must not start without it.
        let first = timeout(START_LIMIT, stream.lines.next_line()).await;
        let Ok(Ok(Some(first))) = first else {
            return Err(Error::Supervisor("it did not report the running containers".to_owned()));
        };
        supervisor.observe(&first);
        Ok((
            Arc::clone(&supervisor),
            SupervisorConnection { supervisor, supervisor_command, requests, stream },
        ))
    }

    /// Returns a Pod's runs.
    pub(crate) fn runs_of_pod(&self, pod: &str) -> PodRuns {
        self.lock().get(pod).cloned().unwrap_or_default()
    }

    /// Returns every Pod that has runs, with its uid.
    pub(crate) fn pods_with_runs(&self) -> Vec<(String, PodName)> {
        let state = self.lock();
        let owner = |runs: &PodRuns| runs.values().next().map(|runs| runs.owner.clone());
        state.iter().filter_map(|(uid, runs)| Some((uid.clone(), owner(runs)?))).collect()
    }

    /// Sends a request to the supervisor. Fails if the channel is full; the reconcile is then retried.
    pub(crate) fn send_request(&self, request: SupervisorRequest) -> io::Result<()> {
        self.requests.try_send(request).map_err(|_| {
            io::Error::other("too many requests are waiting for the supervisor; this one is tried again")
        })
    }

    /// Forgets a Pod that is gone, here and in the supervisor.
    pub(crate) fn forget_pod(&self, pod: &str) -> io::Result<()> {
        let mut forgotten = self.forgotten();
        if !forgotten.contains(pod) {
            self.send_request(SupervisorRequest::Forget { pod: pod.to_owned() })?;
            forgotten.insert(pod.to_owned());
        }
        self.lock().remove(pod);
        Ok(())
    }

    /// Stops remembering forgotten Pods that no longer have files.
    pub(crate) fn retain_forgotten(&self, with_files: &[String]) {
        let with_files: HashSet<&String> = with_files.iter().collect();
        self.forgotten().retain(|pod| with_files.contains(pod));
    }

    /// Runs a command alongside a container.
    pub(crate) async fn execute(
        &self,
        id: ContainerKey,
        process: ProcessSpec,
        limit: Duration,
    ) -> CommandOutcome {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        self.executions().insert(ticket, sender);
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let asked = self.send_request(SupervisorRequest::Execute {
            ticket,
            id,
            process: Box::new(process),
            limit_ms,
        });
        let answer = match asked {
            Ok(()) => timeout(limit + ANSWER_SLACK, receiver).await.ok().and_then(Result::ok),
            Err(_) => None,
        };
        self.executions().remove(&ticket);
        answer.unwrap_or_else(|| CommandOutcome {
            exit: RunExit::Lost,
            output: "the supervisor did not answer in time".to_owned(),
        })
    }

    /// Processes a message from the supervisor. Returns the Pods it concerns.
    fn observe(&self, line: &str) -> Vec<ObjectName> {
        match serde_json::from_str(line) {
            Ok(SupervisorEvent::Known(all)) => self.replace_runs(all),
            Ok(SupervisorEvent::Changed(runs)) if self.forgotten().contains(&runs.id.pod) => Vec::new(),
            Ok(SupervisorEvent::Changed(runs)) => {
                let target = target_of(&runs.owner);
                self.lock().entry(runs.id.pod.clone()).or_default().insert(runs.id.container.clone(), *runs);
                vec![target]
            }
            Ok(SupervisorEvent::Executed { ticket, outcome }) => {
                if let Some(waiting) = self.executions().remove(&ticket) {
                    // The caller may have stopped waiting.
                    let _ = waiting.send(outcome);
                }
                Vec::new()
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read a message from the supervisor");
                Vec::new()
            }
        }
    }

    fn replace_runs(&self, all: Vec<ContainerRuns>) -> Vec<ObjectName> {
        // A new connection: requests on the old one may be lost.
        self.forgotten().clear();
        let mut state = self.lock();
        state.clear();
        let mut targets = Vec::new();
        for runs in all {
            targets.push(target_of(&runs.owner));
            state.entry(runs.id.pod.clone()).or_default().insert(runs.id.container.clone(), runs);
        }
        targets.dedup();
        targets
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PodRuns>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forgotten(&self) -> MutexGuard<'_, HashSet<String>> {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn executions(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<CommandOutcome>>> {
        self.executions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SupervisorConnection {
    /// Moves lines for as long as it is polled. If it is dropped, the connection closes and the supervisor waits for
    /// the next node.
    pub(crate) async fn run(&mut self) {
        loop {
            self.exchange_lines().await;
            tracing::warn!("the supervisor of the node's processes is gone; starting another one");
            self.stream = loop {
                match connect_or_start(&self.supervisor_command).await {
                    Ok(stream) => break stream,
                    Err(error) => tracing::error!(%error, "cannot start the supervisor"),
                }
                sleep(RESTART_PAUSE).await;
            };
        }
    }

    /// Exchanges lines until the connection closes.
    async fn exchange_lines(&mut self) {
        loop {
            tokio::select! {
                line = self.stream.lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    for target in self.supervisor.observe(&line) {
                        // The channel is closed only when the node stops.
                        let _ = self.supervisor.triggers.send(target).await;
                    }
                }
                Some(request) = self.requests.recv() => {
                    if send(&mut self.stream.write, &request).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Stops the supervisor and all its containers; returns when it is gone.
    pub(crate) async fn stop_supervisor(mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        if send(&mut self.stream.write, &SupervisorRequest::End { grace_ms }).await.is_err() {
            return;
        }
        let gone = async {
            while let Ok(Some(_)) = self.stream.lines.next_line().await {}
            if let Some(guard) = &mut self.stream.child {
                let _ = guard.wait().await;
            }
            // This is not our child, or a guard that was killed: the supervisor's lock shows whether it still runs.
            wait_until_unlocked(&self.supervisor_command.layout).await;
        };
        if timeout(grace + ANSWER_SLACK, gone).await.is_err() {
            tracing::warn!("the supervisor did not stop in time");
        }
    }
}

async fn wait_until_unlocked(layout: &NodeLayout) {
    while let Ok(file) = File::open(layout.lock()) {
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok() {
            return;
        }
        sleep(START_PAUSE).await;
    }
}

async fn send(write: &mut OwnedWriteHalf, request: &SupervisorRequest) -> io::Result<()> {
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    write.write_all(&text).await
}

async fn connect_or_start(supervisor_command: &SupervisorCommand) -> io::Result<SupervisorStream> {
    if let Ok(stream) = connect_to_socket(&supervisor_command.layout).await {
        return Ok(new_stream(stream, None));
    }
    let mut child = spawn_guard(supervisor_command)?;
    let reached = async {
        loop {
            if let Ok(stream) = connect_to_socket(&supervisor_command.layout).await {
                return Ok(stream);
            }
            if let Some(status) = child.try_wait()? {
                let log = supervisor_command.layout.supervisor_log();
                return Err(io::Error::other(format!("it ended with {status}; see {}", log.display())));
            }
            sleep(START_PAUSE).await;
        }
    };
    let stream = timeout(START_LIMIT, reached).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(new_stream(stream, Some(child)))
}

fn new_stream(stream: UnixStream, child: Option<Child>) -> SupervisorStream {
    let (read, write) = stream.into_split();
    SupervisorStream { lines: BufReader::new(read).lines(), write, child }
}

async fn connect_to_socket(layout: &NodeLayout) -> io::Result<UnixStream> {
    let folder = File::open(layout.root())?;
    UnixStream::connect(system::socket(&folder, layout.root(), NodeLayout::socket_name())).await
}

/// Starts a guard in its own process group, so that ctrl-c in a terminal reaches only the server.
fn spawn_guard(supervisor_command: &SupervisorCommand) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(supervisor_command.layout.supervisor_log())?;
    let mut command = std::process::Command::new(&supervisor_command.program);
    command
        .arg(GUARD)
        .arg(supervisor_command.layout.root())
        .arg(supervisor_command.outlives_server.as_millis().to_string())
        .arg(if supervisor_command.is_ephemeral { "remove" } else { "keep" })
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Command::from(command).spawn()
}

fn target_of(owner: &PodName) -> ObjectName {
    ObjectName { namespace: Some(owner.namespace.clone()), name: owner.name.clone() }
}
