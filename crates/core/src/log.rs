//! What is asked of a container's log, and why there may be none: the types shared by the server, which answers
//! `pods/log`, and the node, which has the files. Neither knows the other.

use jiff::Timestamp;

/// Which part of which log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// The uid of the Pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// Of the run before the current one.
    pub previous: bool,
    /// Continue as long as the container runs.
    pub follow: bool,
    /// Each line begins with its time.
    pub timestamps: bool,
    /// Only lines from this time on.
    pub since: Option<Timestamp>,
    /// Only this many of the last lines.
    pub tail: Option<u64>,
    /// No more than this.
    pub limit_bytes: Option<u64>,
}

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogRefusal {
    /// The container was not started yet.
    #[error("the container waits to start")]
    NotStarted,
    /// There is no earlier run.
    #[error("there is no earlier run")]
    NoPrevious,
    /// It cannot be read; why.
    #[error("cannot read the log: {0}")]
    Unreadable(String),
}
