//! Where the logs of Pods come from: whoever runs Pods says so, and answers. The server itself runs none and names no node.
//!
//! The rules of the endpoint (which container, which options go together) are in `verbs::log`; a source gets one container
//! of one Pod and reads.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use jiff::Timestamp;

/// Which part of which log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// The uid of the Pod.
    pub pod: String,
    /// The name of the container.
    pub container: String,
    /// Of the run before the current one.
    pub previous: bool,
    /// Go on as long as the container runs.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogRefusal {
    /// The container was not started yet.
    NotStarted,
    /// There is no earlier run.
    NoPrevious,
    /// It cannot be read; why.
    Unreadable(String),
}

/// A log, or why there is none.
pub type LogAnswer = Result<BoxStream<'static, Bytes>, LogRefusal>;

/// A node that runs Pods and keeps what they say.
pub trait LogSource: Send + Sync {
    /// The name of the Node whose Pods it runs.
    fn node(&self) -> &str;

    /// Reads. Dropping the stream ends a log that is followed.
    fn read(&self, request: LogRequest) -> BoxFuture<'static, LogAnswer>;
}
