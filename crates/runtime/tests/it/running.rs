//! Represents an operator that runs in a test cluster: its journal, its admin pages, and how it exits.

use std::net::SocketAddr;

use homeostat::testing::{PausedTime, RunningOperator};
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
    /// Kills it later.
    pub(crate) fn killer(&self) -> RunningOperator {
        self.operator.clone()
    }

    /// Stops the operator immediately, like `kill -9`.
    pub(crate) fn kill(&self) {
        self.operator.kill();
    }

    /// Returns whether it has exited by itself.
    pub(crate) fn has_ended(&self) -> bool {
        self.operator.has_ended()
    }

    /// Opens a connection to the admin server and sends nothing.
    pub(crate) async fn connect(&self) -> tokio::net::TcpStream {
        let _held = PausedTime::new();
        tokio::net::TcpStream::connect(self.admin).await.expect("it listens")
    }

    /// Returns a page of the admin server, requested over TCP as a kubelet or Prometheus would request it.
    pub(crate) async fn page(&self, path: &str) -> String {
        let _held = PausedTime::new();
        let mut stream = tokio::net::TcpStream::connect(self.admin).await.expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("it answers");
        answer
    }

    /// Returns the value of the metric with this name and these labels; zero if there is none yet.
    pub(crate) async fn metric(&self, name: &str) -> i64 {
        let page = self.page("/metrics").await;
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("a whole number"))
    }
}
