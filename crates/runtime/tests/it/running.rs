//! An operator that runs in a laboratory: what it wrote in its journal, what its admin pages say, and how it ends.

use std::net::SocketAddr;

use homeostat::testing::{HeldTime, RunningOperator};
use homeostat_runtime::{CancellationToken, Journal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A running operator.
pub(crate) struct Running {
    pub(crate) journal: Journal,
    pub(crate) stop: CancellationToken,
    pub(crate) operator: RunningOperator,
    pub(crate) admin: SocketAddr,
}

impl Running {
    /// What kills it later.
    pub(crate) fn killer(&self) -> RunningOperator {
        self.operator.clone()
    }

    /// Ends the operator where it stands, as `kill -9` does.
    pub(crate) fn kill(&self) {
        self.operator.kill();
    }

    /// Has it ended by itself?
    pub(crate) fn has_ended(&self) -> bool {
        self.operator.has_ended()
    }

    /// A connection to the admin server that says nothing.
    pub(crate) async fn connect(&self) -> tokio::net::TcpStream {
        let _held = HeldTime::new();
        tokio::net::TcpStream::connect(self.admin).await.expect("it listens")
    }

    /// A page of the admin server, asked for over TCP as a kubelet or Prometheus would.
    pub(crate) async fn page(&self, path: &str) -> String {
        let _held = HeldTime::new();
        let mut stream = tokio::net::TcpStream::connect(self.admin).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        answer
    }

    /// The value of the metric with this name and these labels; zero when there is none yet.
    pub(crate) async fn metric(&self, name: &str) -> i64 {
        let page = self.page("/metrics").await;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }
}
