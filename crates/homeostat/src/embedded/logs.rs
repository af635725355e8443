//! The node's logs as the server's `pods/log` wants them: the two crates do not know each other.

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use homeostat_apiserver::logs::{LogAnswer, LogRefusal, LogRequest, LogSource};
use homeostat_workloads::node::Logs;
use homeostat_workloads::node::logs::{LogError, LogQuery};

/// The logs of one node.
pub(super) struct NodeLogs {
    pub(super) node: String,
    pub(super) logs: Logs,
}

impl LogSource for NodeLogs {
    fn node(&self) -> &str {
        &self.node
    }

    fn read(&self, request: LogRequest) -> BoxFuture<'static, LogAnswer> {
        let logs = self.logs.clone();
        Box::pin(async move {
            let log = logs.read(query(request)).await.map_err(refusal)?;
            Ok(log.map(Bytes::from).boxed())
        })
    }
}

fn query(request: LogRequest) -> LogQuery {
    LogQuery {
        pod: request.pod,
        container: request.container,
        previous: request.previous,
        follow: request.follow,
        timestamps: request.timestamps,
        since: request.since,
        tail: request.tail,
        limit_bytes: request.limit_bytes,
    }
}

fn refusal(error: LogError) -> LogRefusal {
    match error {
        LogError::NotStarted => LogRefusal::NotStarted,
        LogError::NoPrevious => LogRefusal::NoPrevious,
        other => LogRefusal::Unreadable(other.to_string()),
    }
}
