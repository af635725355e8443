//! Defines the protocol between a node and its supervisor: one JSON value per line, over a socket in the node's folder.
//!
//! **Invariant:** every request may be repeated. A start names its attempt, and an attempt is started only once. A node
//! that lost its connection or was restarted can therefore repeat a request and gets the requested state, never a
//! second process.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::node::container_http::ContainerRequest;

/// Identifies one container of one Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ContainerKey {
    /// The Pod's uid.
    pub(crate) pod: String,
    pub(crate) container: String,
}

/// The Pod that a run belongs to, by namespace and name.
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
    /// The user it runs as, in its own view; `None` for the node's own.
    pub(crate) user: Option<u32>,
    pub(crate) group: Option<u32>,
    /// Its supplementary groups.
    pub(crate) groups: Vec<u32>,
    /// The mappings of its user namespace; empty if it has none.
    pub(crate) ranges: Vec<IdRange>,
    pub(crate) rights: ProcessCapabilities,
    /// The memory limit of each process of the container.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) view: MachineView,
    /// Whether the node's owner named the program. If so, it is looked up with the node's permissions, wherever it is.
    pub(crate) is_program_given: bool,
}

impl ProcessSpec {
    /// Returns the same process with a different command.
    pub(crate) fn with_command(self, command: Vec<String>) -> Self {
        Self { command, is_program_given: false, ..self }
    }

    /// Returns the ID on the machine of a user or group of the process.
    pub(crate) fn outside(&self, id: u32) -> u32 {
        self.mapped_outside(id).unwrap_or(id)
    }

    /// Returns the ID on the machine of a user or group that the process's user namespace maps.
    pub(crate) fn mapped_outside(&self, id: u32) -> Option<u32> {
        let at = |range: &IdRange| id.checked_sub(range.inside).filter(|distance| *distance < range.count);
        self.ranges.iter().find_map(|range| Some(range.outside + at(range)?))
    }
}

/// A range of the machine's users and groups that a user namespace shows under different IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdRange {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) count: u32,
}

/// The capabilities that a process has beyond its user's permissions; one bit for each Linux capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessCapabilities {
    /// Whether the programs that it runs cannot give it new ones.
    pub(crate) no_new_privileges: bool,
    /// The upper bound; `None` if capabilities cannot be limited.
    pub(crate) bound: Option<u64>,
    /// The capabilities it has although it is not root.
    pub(crate) ambient: u64,
}

/// The first process of a running container, whose namespaces a command enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JoinTarget {
    pub(crate) pid: i32,
    /// Its start in kernel ticks, which rules out a different process with the same pid.
    pub(crate) started_ticks: u64,
}

/// The parts of the machine that a container does not see in its mount namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MachineView {
    /// Folders and files that appear empty.
    pub(crate) hidden: Vec<PathBuf>,
    /// Whether other users' processes are hidden.
    pub(crate) has_own_processes_only: bool,
    /// Whether only volumes can be written to.
    pub(crate) is_read_only: bool,
}

/// A folder or file that a container sees at a different path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mount {
    pub(crate) source: PathBuf,
    /// The requested part of the source. Links cannot lead out of it.
    pub(crate) part: PathBuf,
    /// Empty if a link leads there instead: the source is then created but not mounted.
    pub(crate) target: PathBuf,
    pub(crate) is_read_only: bool,
    pub(crate) origin: MountOrigin,
}

/// The origin of a folder or file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MountOrigin {
    /// The Pod's own: paths for other mounts may be created in it.
    Pod,
    /// The machine, with the type that the path must have, as in a `hostPath`.
    Machine(String),
}

/// A request to start a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerLaunch {
    pub(crate) id: ContainerKey,
    pub(crate) owner: PodName,
    /// The number of earlier starts.
    pub(crate) attempt: u32,
    /// The number of short-lived restarts in a row; the next backoff depends on it.
    pub(crate) strikes: u32,
    /// How many of the earlier runs ended because the node stopped.
    #[serde(default)]
    pub(crate) interruptions: u32,
    pub(crate) process: ProcessSpec,
    /// Runs after the process has started; if it fails, the process is killed.
    pub(crate) after_start: Option<LifecycleHook>,
    /// Runs before the process is asked to stop.
    pub(crate) before_stop: Option<LifecycleHook>,
    /// Whether the end of its log replaces a missing termination message.
    #[serde(default)]
    pub(crate) falls_back_to_log: bool,
    pub(crate) streams: ContainerStreams,
}

/// Which streams a container has in addition to its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerStreams {
    /// Whether it has an input, which attached clients write to.
    pub(crate) stdin: bool,
    /// Whether the input ends when the first of these clients is gone.
    pub(crate) stdin_once: bool,
    /// Whether its streams are a terminal.
    pub(crate) tty: bool,
}

/// An action at the start or the end of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LifecycleHook {
    /// Runs a command alongside the container.
    Execute(Vec<String>),
    /// Waits.
    Sleep { seconds: u64 },
    /// Sends an HTTP request.
    Get(Box<ContainerRequest>),
}

/// A node's request to its supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SupervisorRequest {
    /// Start an attempt, unless it was already started.
    Start(Box<ContainerLaunch>),
    /// Stop it: SIGTERM now, SIGKILL after the grace period. A later stop can only shorten the period.
    Stop { id: ContainerKey, grace_ms: u64 },
    /// Run a command alongside a container and report how it exited.
    Execute { ticket: u64, id: ContainerKey, process: Box<ProcessSpec>, limit_ms: u64 },
    /// The Pod is gone: stop its processes and remove its records and files.
    Forget { pod: String },
    /// Stop all containers, then the supervisor itself.
    End { grace_ms: u64 },
}

/// A supervisor's message to its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SupervisorEvent {
    /// The whole state; the first line on every connection.
    Known(Vec<ContainerRuns>),
    /// One container has changed.
    Changed(Box<ContainerRuns>),
    /// A command requested with [`SupervisorRequest::Execute`] has exited.
    Executed { ticket: u64, outcome: CommandOutcome },
}

/// How a command that ran alongside a container exited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandOutcome {
    pub(crate) exit: RunExit,
    /// The beginning of its output.
    pub(crate) output: String,
}

/// The last two runs of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRuns {
    pub(crate) id: ContainerKey,
    pub(crate) owner: PodName,
    pub(crate) current: ContainerRunStatus,
    pub(crate) previous: Option<ContainerRunStatus>,
}

/// One run of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRunStatus {
    pub(crate) attempt: u32,
    pub(crate) strikes: u32,
    #[serde(default)]
    pub(crate) interruptions: u32,
    pub(crate) state: RunState,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunState {
    /// Requested; there may be a process already.
    Starting,
    /// Running as the leader of its own session and process group.
    Running {
        pid: i32,
        /// The process's start in kernel ticks: together with the pid it identifies one process forever.
        started_ticks: u64,
        started_at: Timestamp,
    },
    /// It has ended.
    Ended {
        started_at: Timestamp,
        finished_at: Timestamp,
        exit: RunExit,
        /// Its termination message.
        #[serde(default)]
        message: Option<String>,
    },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunExit {
    Code(i32),
    Signal(i32),
    /// No process was started; contains the reason.
    NotStarted(String),
    /// It exceeded its time limit and was killed.
    TimedOut,
    /// Its postStart hook failed and it was killed; contains the hook's message.
    HookFailed(String),
    /// It ended because the node was stopped.
    NodeStopped,
    /// The supervisor was killed with it, so how it ended is unknown.
    Lost,
}

impl RunExit {
    /// Returns the code that a shell would show.
    pub(crate) fn code(&self) -> i32 {
        /// The code that Kubernetes shows for a container that could not be started.
        const START_ERROR: i32 = 128;
        /// The code for a container that was killed, or whose exit was not observed.
        const KILLED: i32 = 137;
        /// The code for a container that was asked to stop.
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

    /// Returns whether the container exited on its own. If not, there is no reason to delay the next start.
    pub(crate) fn ended_on_its_own(&self) -> bool {
        !matches!(self, Self::NodeStopped | Self::Lost)
    }
}

impl ContainerRunStatus {
    /// Returns the restart count. A run that the node interrupted and resumed is not a restart, because Jobs count
    /// restarts as failures.
    pub(crate) fn restarts(&self) -> u32 {
        self.attempt.saturating_sub(self.interruptions)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, RunState::Ended { .. })
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }

    /// Returns how it ended, if it has.
    pub(crate) fn exit(&self) -> Option<&RunExit> {
        match &self.state {
            RunState::Ended { exit, .. } => Some(exit),
            _ => None,
        }
    }
}
