//! Defines the source of Pod logs: a node that runs Pods registers itself and reads them. The server itself runs no
//! Pods and has no Node of its own.
//!
//! The rules of the endpoint (which container, which options go together) are in `verbs::log`; a source only ever
//! gets one container of one Pod.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use homeostat_core::container_log::{LogRefusal, LogRequest};

/// A log, or why there is none.
pub type LogAnswer = Result<BoxStream<'static, Bytes>, LogRefusal>;

/// A node that runs Pods and keeps their logs.
pub trait LogSource: Send + Sync {
    /// Returns whether this source runs the Pods of the Node with this name.
    fn is_of(&self, node: &str) -> bool;

    /// Reads a log. Dropping the stream stops following the log.
    fn read(&self, request: LogRequest) -> BoxFuture<'static, LogAnswer>;
}
