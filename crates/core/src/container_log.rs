//! Types for requests for a container's log, and for the reasons why there is none, shared by the server, which answers
//! `pods/log`, and the node, which has the files. Neither knows about the other.

use jiff::Timestamp;

/// Selects a part of a container's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRequest {
    /// The uid of the Pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// Return the log of the previous run.
    pub previous: bool,
    /// Continue as long as the container runs.
    pub follow: bool,
    /// Prefix each line with its time.
    pub timestamps: bool,
    /// Only lines from this time on.
    pub since: Option<Timestamp>,
    /// Only this many of the last lines.
    pub tail: Option<u64>,
    /// Return at most this many bytes.
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
    /// It cannot be read, for this reason.
    #[error("cannot read the log: {0}")]
    Unreadable(String),
}
