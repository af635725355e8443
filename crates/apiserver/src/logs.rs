//! Where the logs of Pods come from: whoever runs Pods says so, and answers. The server itself runs none and names no node.
//!
//! The rules of the endpoint (which container, which options go together) are in `verbs::log`; a source gets one container
//! of one Pod and reads.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use homeostat_core::log::{LogRefusal, LogRequest};

/// A log, or why there is none.
pub type LogAnswer = Result<BoxStream<'static, Bytes>, LogRefusal>;

/// A node that runs Pods and keeps what they say.
pub trait LogSource: Send + Sync {
    /// Does it run the Pods of the Node of this name?
    fn is_of(&self, node: &str) -> bool;

    /// Reads. Dropping the stream ends a log that is followed.
    fn read(&self, request: LogRequest) -> BoxFuture<'static, LogAnswer>;
}
