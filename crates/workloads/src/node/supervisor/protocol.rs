//! The protocol between a node and its supervisor: one JSON value per line, over a socket in the node's folder.
//!
//! **Invariant:** every request may be repeated. A start names its attempt, and an attempt is started only once. So a
//! node that lost its connection, or was restarted, asks again and gets the state it asked for, never a second process.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::node::http::ContainerRequest;

/// One container of one Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ContainerKey {
    /// The Pod's uid.
    pub(crate) pod: String,
    pub(crate) container: String,
}

/// The Pod a run belongs to, as people name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PodName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// How a process is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessSpec {
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) directory: PathBuf,
    /// Who it runs as, in its own eyes; the node's own user if none is given.
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    /// Groups it has besides.
    pub(crate) groups: Vec<u32>,
    /// The users and groups of its user namespace; without any it has none of its own.
    pub(crate) ranges: Vec<IdRange>,
    pub(crate) rights: ProcessRights,
    /// No process of the container may have more data than this.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) view: MachineView,
    /// Was the program named by the node's owner? Then it is found with the node's rights, wherever it is.
    pub(crate) is_program_given: bool,
}

impl ProcessSpec {
    /// Another command of the same container.
    pub(crate) fn with_command(self, command: Vec<String>) -> Self {
        Self { command, is_program_given: false, ..self }
    }

    /// Who this number of a user or group is on the machine.
    pub(crate) fn outside(&self, id: u32) -> u32 {
        let at = |range: &IdRange| id.checked_sub(range.inside).filter(|distance| *distance < range.count);
        self.ranges.iter().find_map(|range| Some(range.outside + at(range)?)).unwrap_or(id)
    }
}

/// Users and groups of the machine that a user namespace shows under other numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdRange {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) count: u32,
}

/// What a process may do beyond its user; a bit for each of Linux' capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRights {
    /// No program it runs gives it any it has not.
    pub(crate) no_new_privileges: bool,
    /// Those it can have at most; none where they cannot be taken.
    pub(crate) bound: Option<u64>,
    /// Those it has although it is not root.
    pub(crate) ambient: u64,
}

/// What a container does not see of the machine, in its mount namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineView {
    /// Folders and files that are empty for it.
    pub(crate) hidden: Vec<PathBuf>,
    /// Processes of other users are not there.
    pub(crate) has_own_processes_only: bool,
    /// Only volumes can be written to.
    pub(crate) is_read_only: bool,
}

/// A folder or file seen at another path by one container only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    /// What of the source is wanted. No link leads out of it.
    pub(crate) part: PathBuf,
    /// Empty where a link leads there instead: the source is made, and not mounted.
    pub(crate) target: PathBuf,
    pub(crate) is_read_only: bool,
    pub(crate) origin: MountOrigin,
}

/// Whose a folder or file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MountOrigin {
    /// The Pod's: paths for other mounts may be made in it.
    Pod,
    /// The machine's; with the type it must have, as in a `hostPath`.
    Machine(String),
}

/// A start of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerLaunch {
    pub(crate) id: ContainerKey,
    pub(crate) owner: PodName,
    /// How often it was started before.
    pub(crate) attempt: u32,
    /// Restarts in a row that did not last; what the next back-off is reckoned from.
    pub(crate) strikes: u32,
    /// How many of the starts before ended because the node did.
    #[serde(default)]
    pub(crate) interruptions: u32,
    pub(crate) process: ProcessSpec,
    /// Run when the process has started; if it fails the process is ended.
    pub(crate) after_start: Option<LifecycleHook>,
    /// Run before the process is told to end.
    pub(crate) before_stop: Option<LifecycleHook>,
    /// Without last words of its own, the end of its log is taken.
    #[serde(default)]
    pub(crate) falls_back_to_log: bool,
}

/// What is done at a turn of a container's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LifecycleHook {
    /// A command beside the container.
    Execute(Vec<String>),
    /// Nothing, for a while.
    Sleep { seconds: u64 },
    /// A request.
    Get(Box<ContainerRequest>),
}

/// What a node asks of its supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SupervisorRequest {
    /// Start an attempt, unless it was started.
    Start(Box<ContainerLaunch>),
    /// End it: SIGTERM now, SIGKILL after the grace. A later stop can only shorten the grace.
    Stop { id: ContainerKey, grace_ms: u64 },
    /// Run a command beside a container and tell how it ended.
    Execute { ticket: u64, id: ContainerKey, process: Box<ProcessSpec>, limit_ms: u64 },
    /// The Pod is gone: its processes, records and files may go.
    Forget { pod: String },
    /// End everything and yourself.
    End { grace_ms: u64 },
}

/// What a supervisor tells its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SupervisorEvent {
    /// All there is; the first line on every connection.
    Known(Vec<ContainerRuns>),
    /// One container changed.
    Changed(Box<ContainerRuns>),
    /// A command asked for with [`SupervisorRequest::Execute`] ended.
    Executed { ticket: u64, outcome: CommandOutcome },
}

/// How a command beside a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandOutcome {
    pub(crate) exit: RunExit,
    /// The beginning of what it said.
    pub(crate) output: String,
}

/// The last two runs of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRuns {
    pub(crate) id: ContainerKey,
    pub(crate) owner: PodName,
    pub(crate) current: ContainerRun,
    pub(crate) previous: Option<ContainerRun>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRun {
    pub(crate) attempt: u32,
    pub(crate) strikes: u32,
    #[serde(default)]
    pub(crate) interruptions: u32,
    pub(crate) state: RunState,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunState {
    /// Asked for; there may be a process already.
    Starting,
    /// Running as the leader of a session and process group of its own.
    Running {
        pid: i32,
        /// The process's start in kernel ticks: together with the pid it names one process for ever.
        started_ticks: u64,
        started_at: Timestamp,
    },
    /// Over.
    Ended {
        started_at: Timestamp,
        finished_at: Timestamp,
        exit: RunExit,
        /// Its last words.
        #[serde(default)]
        message: Option<String>,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunExit {
    Code(i32),
    Signal(i32),
    /// There was no process; why.
    NotStarted(String),
    /// It took longer than it may, and was killed.
    TimedOut,
    /// What was to run after its start failed, and it was killed; what that said.
    HookFailed(String),
    /// It ended because the node was stopped.
    NodeStopped,
    /// The supervisor was killed with it; nobody knows how it would have ended.
    Lost,
}

impl RunExit {
    /// The code a shell would show.
    pub(crate) fn code(&self) -> i32 {
        /// What Kubernetes shows for a container that could not be started.
        const START_ERROR: i32 = 128;
        /// What it shows for one that was killed, or whose end nobody saw.
        const KILLED: i32 = 137;
        /// What it shows for one that was told to end.
        const TERMINATED: i32 = 143;
        match self {
            Self::Code(code) => *code,
            Self::Signal(signal) => 128 + signal,
            Self::NotStarted(_) => START_ERROR,
            Self::TimedOut | Self::HookFailed(_) | Self::Lost => KILLED,
            Self::NodeStopped => TERMINATED,
        }
    }

    pub(crate) fn is_success(&self) -> bool {
        *self == Self::Code(0)
    }

    /// Did the container end by itself? If not, its end is no reason to wait with the next start.
    pub(crate) fn is_its_own(&self) -> bool {
        !matches!(self, Self::NodeStopped | Self::Lost)
    }
}

impl ContainerRun {
    /// The restart count: what the node interrupted and took up again is no restart. Jobs count restarts as failures.
    pub(crate) fn restarts(&self) -> u32 {
        self.attempt.saturating_sub(self.interruptions)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, RunState::Ended { .. })
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }

    /// How it ended, if it did.
    pub(crate) fn exit(&self) -> Option<&RunExit> {
        match &self.state {
            RunState::Ended { exit, .. } => Some(exit),
            _ => None,
        }
    }
}
