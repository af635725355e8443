//! Connects the node's logs to the server's `pods/log`, because the two crates do not know each other.

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use homeostat_apiserver::logs::{LogAnswer, LogSource};
use homeostat_core::container_log::LogRequest;
use homeostat_workloads::node::Logs;

/// A node's logs, for all Node objects it is registered as.
pub(super) struct NodeLogs {
    pub(super) nodes: Vec<String>,
    pub(super) logs: Logs,
}

impl LogSource for NodeLogs {
    fn is_of(&self, node: &str) -> bool {
        self.nodes.iter().any(|name| name == node)
    }

    fn read(&self, request: LogRequest) -> BoxFuture<'static, LogAnswer> {
        let logs = self.logs.clone();
        Box::pin(async move {
            let log = logs.read(request).await?;
            Ok(log.map(Bytes::from).boxed())
        })
    }
}
