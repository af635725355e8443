//! The node's side of the connection to its keeper: a mirror of all runs, requests out, triggers for what changed.
//!
//! **Invariant:** the mirror holds what the keeper told last, and every change of it triggers its Pod. A lost keeper is
//! started again and the mirror is replaced by what it knows; requests lost on the way are made again by the next
//! reconcile, because requests may be repeated.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use homeostat_runtime::Target;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::error::Error;
use super::supervisor::layout::NodeLayout;
use super::supervisor::protocol::{
    CommandOutcome, ContainerKey, ContainerRuns, PodName, ProcessSpec, RunExit, SupervisorEvent,
    SupervisorRequest,
};
use super::supervisor::{GUARD, is_mistaken, system};

/// Requests waiting to be written: more than a thousand Pods ask for at once.
const ASKED_MAX: usize = 8192;
/// A keeper answers this soon after its start; it may have to wait for an earlier one to end its containers.
const START_LIMIT: Duration = Duration::from_secs(70);
/// Between two tries to reach a keeper that is starting.
const START_PAUSE: Duration = Duration::from_millis(10);
/// After a keeper that could not be started.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Beyond its own limit, a command beside a container is answered this soon.
const ANSWER_SLACK: Duration = Duration::from_secs(5);

/// How a keeper is started.
#[derive(Clone, Debug)]
pub(crate) struct SupervisorCommand {
    pub(crate) program: PathBuf,
    pub(crate) layout: NodeLayout,
    pub(crate) outlives_server: Duration,
    pub(crate) is_ephemeral: bool,
}

/// The runs of one Pod, by container.
pub(crate) type PodRuns = BTreeMap<String, ContainerRuns>;

/// The shared end of the connection.
pub(crate) struct SupervisorClient {
    state: Mutex<HashMap<String, PodRuns>>,
    asks: mpsc::Sender<SupervisorRequest>,
    triggers: mpsc::Sender<Target>,
    tickets: AtomicU64,
    executions: Mutex<HashMap<u64, oneshot::Sender<CommandOutcome>>>,
    /// Pods the keeper was asked to forget: once is enough, and what it still says of them is nothing to us.
    forgotten: Mutex<HashSet<String>>,
}

/// The end that moves lines: a task of the node.
pub(crate) struct SupervisorConnection {
    link: Arc<SupervisorClient>,
    recipe: SupervisorCommand,
    asked: mpsc::Receiver<SupervisorRequest>,
    connection: SupervisorStream,
}

struct SupervisorStream {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
    child: Option<Child>,
}

impl SupervisorClient {
    /// Connects to the folder's keeper, or starts one. What happens later is the [`SupervisorConnection`]'s task.
    pub(crate) async fn connect(
        recipe: SupervisorCommand,
        triggers: mpsc::Sender<Target>,
    ) -> Result<(Arc<Self>, SupervisorConnection), Error> {
        if is_mistaken() {
            let why = "this program was started as a keeper; let its main begin with act_if_asked()";
            return Err(Error::Keeper(why.to_owned()));
        }
        let mut connection = connect(&recipe).await.map_err(|error| Error::Keeper(error.to_string()))?;
        let (asks, asked) = mpsc::channel(ASKED_MAX);
        let link = Arc::new(Self {
            state: Mutex::default(),
            asks,
            triggers,
            tickets: AtomicU64::new(0),
            executions: Mutex::default(),
            forgotten: Mutex::default(),
        });
        // The first line is all there is: reconciles must not begin without it.
        let first = timeout(START_LIMIT, connection.lines.next_line()).await;
        let Ok(Ok(Some(first))) = first else {
            return Err(Error::Keeper("it does not say what it knows".to_owned()));
        };
        link.observe(&first);
        Ok((Arc::clone(&link), SupervisorConnection { link, recipe, asked, connection }))
    }

    /// The runs of a Pod.
    pub(crate) fn runs(&self, pod: &str) -> PodRuns {
        self.lock().get(pod).cloned().unwrap_or_default()
    }

    /// Every Pod that has runs, with its uid.
    pub(crate) fn pods(&self) -> Vec<(String, PodName)> {
        let state = self.lock();
        let owner = |runs: &PodRuns| runs.values().next().map(|runs| runs.owner.clone());
        state.iter().filter_map(|(uid, runs)| Some((uid.clone(), owner(runs)?))).collect()
    }

    /// Asks the keeper. An overflow is an error: the reconcile that asked is tried again.
    pub(crate) fn ask(&self, ask: SupervisorRequest) -> io::Result<()> {
        self.asks.try_send(ask).map_err(|_| io::Error::other("the keeper does not keep up; trying again"))
    }

    /// Forgets a Pod that is gone, here and at the keeper.
    pub(crate) fn forget(&self, pod: &str) -> io::Result<()> {
        let mut forgotten = self.forgotten();
        if !forgotten.contains(pod) {
            self.ask(SupervisorRequest::Forget { pod: pod.to_owned() })?;
            forgotten.insert(pod.to_owned());
        }
        self.lock().remove(pod);
        Ok(())
    }

    /// Only these Pods still have files: the others need not be remembered as forgotten.
    pub(crate) fn keep_forgotten(&self, with_files: &[String]) {
        let with_files: HashSet<&String> = with_files.iter().collect();
        self.forgotten().retain(|pod| with_files.contains(pod));
    }

    /// Runs a command beside a container.
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
        let asked = self.ask(SupervisorRequest::Execute { ticket, id, process: Box::new(process), limit_ms });
        let answer = match asked {
            Ok(()) => timeout(limit + ANSWER_SLACK, receiver).await.ok().and_then(Result::ok),
            Err(_) => None,
        };
        self.executions().remove(&ticket);
        answer.unwrap_or_else(|| CommandOutcome {
            exit: RunExit::Lost,
            output: "the keeper did not answer".to_owned(),
        })
    }

    /// Takes in a line of the keeper; tells whom it concerns.
    fn observe(&self, line: &str) -> Vec<Target> {
        match serde_json::from_str(line) {
            Ok(SupervisorEvent::Known(all)) => self.replace(all),
            Ok(SupervisorEvent::Changed(runs)) if self.forgotten().contains(&runs.id.pod) => Vec::new(),
            Ok(SupervisorEvent::Changed(runs)) => {
                let target = target_of(&runs.owner);
                self.lock().entry(runs.id.pod.clone()).or_default().insert(runs.id.container.clone(), *runs);
                vec![target]
            }
            Ok(SupervisorEvent::Executed { ticket, outcome }) => {
                if let Some(waiting) = self.executions().remove(&ticket) {
                    // Whoever asked may have stopped waiting.
                    let _ = waiting.send(outcome);
                }
                Vec::new()
            }
            Err(error) => {
                tracing::warn!(%error, "the keeper said something unreadable");
                Vec::new()
            }
        }
    }

    fn replace(&self, all: Vec<ContainerRuns>) -> Vec<Target> {
        // A new connection: what was asked on the old one may be lost.
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
    /// Moves lines for as long as it is polled. Dropped, the connection closes and the keeper waits for the next node.
    pub(crate) async fn run(&mut self) {
        loop {
            self.talk().await;
            tracing::warn!("the keeper of the node's processes is gone; starting another");
            self.connection = loop {
                match connect(&self.recipe).await {
                    Ok(connection) => break connection,
                    Err(error) => tracing::error!(%error, "cannot start the keeper"),
                }
                sleep(RESTART_PAUSE).await;
            };
        }
    }

    /// Until the connection ends.
    async fn talk(&mut self) {
        loop {
            tokio::select! {
                line = self.connection.lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    for target in self.link.observe(&line) {
                        // Closed only when the node stops.
                        let _ = self.link.triggers.send(target).await;
                    }
                }
                Some(ask) = self.asked.recv() => {
                    if send(&mut self.connection.write, &ask).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Ends the keeper and all it keeps; returns when it is gone.
    pub(crate) async fn end(mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        if send(&mut self.connection.write, &SupervisorRequest::End { grace_ms }).await.is_err() {
            return;
        }
        let gone = async {
            while let Ok(Some(_)) = self.connection.lines.next_line().await {}
            if let Some(guard) = &mut self.connection.child {
                let _ = guard.wait().await;
            }
            // Not our child, or a guard that was killed: the keeper's lock tells.
            unlocked(&self.recipe.layout).await;
        };
        if timeout(grace + ANSWER_SLACK, gone).await.is_err() {
            tracing::warn!("the keeper did not end in time");
        }
    }
}

async fn unlocked(layout: &NodeLayout) {
    while let Ok(file) = File::open(layout.lock()) {
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok() {
            return;
        }
        sleep(START_PAUSE).await;
    }
}

async fn send(write: &mut OwnedWriteHalf, ask: &SupervisorRequest) -> io::Result<()> {
    let mut text = serde_json::to_vec(ask)?;
    text.push(b'\n');
    write.write_all(&text).await
}

async fn connect(recipe: &SupervisorCommand) -> io::Result<SupervisorStream> {
    if let Ok(stream) = reach(&recipe.layout).await {
        return Ok(connection(stream, None));
    }
    let mut child = spawn(recipe)?;
    let reached = async {
        loop {
            if let Ok(stream) = reach(&recipe.layout).await {
                return Ok(stream);
            }
            if let Some(status) = child.try_wait()? {
                let log = recipe.layout.keeper_log();
                return Err(io::Error::other(format!("it ended with {status}; see {}", log.display())));
            }
            sleep(START_PAUSE).await;
        }
    };
    let stream = timeout(START_LIMIT, reached).await.map_err(|_| io::ErrorKind::TimedOut)??;
    Ok(connection(stream, Some(child)))
}

fn connection(stream: UnixStream, child: Option<Child>) -> SupervisorStream {
    let (read, write) = stream.into_split();
    SupervisorStream { lines: BufReader::new(read).lines(), write, child }
}

async fn reach(layout: &NodeLayout) -> io::Result<UnixStream> {
    let folder = File::open(layout.root())?;
    UnixStream::connect(system::socket(&folder, layout.root(), NodeLayout::socket_name())).await
}

/// A process group of its own, so that ctrl-c in a terminal reaches the server only.
fn spawn(recipe: &SupervisorCommand) -> io::Result<Child> {
    let log = File::options().create(true).append(true).open(recipe.layout.keeper_log())?;
    let mut command = std::process::Command::new(&recipe.program);
    command
        .arg(GUARD)
        .arg(recipe.layout.root())
        .arg(recipe.outlives_server.as_millis().to_string())
        .arg(if recipe.is_ephemeral { "remove" } else { "keep" })
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Command::from(command).spawn()
}

fn target_of(owner: &PodName) -> Target {
    Target { namespace: Some(owner.namespace.clone()), name: owner.name.clone() }
}
