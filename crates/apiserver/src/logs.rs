//! The source of Pod logs: a node that runs Pods registers itself and reads them. The server itself runs no Pods and
//! names no node.
//!
//! The rules of the endpoint (which container, which options go together) are in `verbs::log`; a source is given one
//! container of one Pod.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use homeostat_core::log::{LogRefusal, LogRequest};

/// A log, or why there is none.
pub type LogAnswer = Result<BoxStream<'static, Bytes>, LogRefusal>;

/// A node that runs Pods and keeps their logs.
pub trait LogSource: Send + Sync {
    /// Returns whether it runs the Pods of the Node of this name.
    fn is_of(&self, node: &str) -> bool;

    /// Reads a log. Dropping the stream ends a log that is followed.
    fn read(&self, request: LogRequest) -> BoxFuture<'static, LogAnswer>;
}
