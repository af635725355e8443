//! The operator's process: started with its kubeconfig, in its own process group, with its output kept for the report.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// The maximum number of output lines to keep: enough for a stack trace or two.
const LINES_MAX: usize = 200;

/// The operator's last output. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct OutputLog(Arc<Mutex<VecDeque<String>>>);

impl OutputLog {
    /// Returns the last lines.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Adds a line.
    pub(super) fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// A running operator. Dropping it kills it.
pub(super) struct OperatorProcess {
    child: Child,
    group: Option<Pid>,
    readers: JoinSet<()>,
}

impl OperatorProcess {
    /// Starts the command with the kubeconfig.
    pub(super) fn start(command: &str, kubeconfig: &Path, output: &OutputLog) -> Result<Self, String> {
        let mut child = Command::new("sh")
            .args(["-c", command])
            .env("KUBECONFIG", kubeconfig)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("KUBERNETES_SERVICE_PORT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("the command cannot be started: {error}"))?;
        let mut readers = JoinSet::new();
        if let Some(stream) = child.stdout.take() {
            readers.spawn(read_lines(stream, output.clone()));
        }
        if let Some(stream) = child.stderr.take() {
            readers.spawn(read_lines(stream, output.clone()));
        }
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        Ok(Self { child, group, readers })
    }

    /// Returns its process group.
    pub(super) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// Returns how it ended, if it has. Its child processes end with it.
    pub(super) fn try_wait(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten()?;
        self.kill_group();
        Some(status)
    }

    /// Waits until it has ended and all its output has been read.
    pub(super) async fn wait(mut self) {
        let _ = self.child.wait().await;
        self.kill_group();
        while self.readers.join_next().await.is_some() {}
    }

    /// Kills the group only once, because its id may be reused.
    fn kill_group(&mut self) {
        if let Some(group) = self.group.take() {
            // Every process in it may already have ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        self.kill_group();
    }
}

async fn read_lines(stream: impl AsyncRead + Unpin, output: OutputLog) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        output.push(line);
    }
}
