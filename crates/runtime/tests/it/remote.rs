//! Runs the same tests over TLS against `homeostat up` in a separate process.
//!
//! `HOMEOSTAT_TEST_SERVER` names the program. Each test starts its own server, in memory, so tests do not see each
//! other's objects.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use kube::Client;
use kube::config::Kubeconfig;

use crate::reference::connect;

/// The program to test against; if it is not set, the server runs in this process.
const PROGRAM: &str = "HOMEOSTAT_TEST_SERVER";

/// A running server; stopped at the end of the test.
pub(crate) struct Remote {
    child: Child,
    folder: tempfile::TempDir,
}

impl Remote {
    /// Starts the server, if there is a program to test.
    pub(crate) fn start() -> Option<Self> {
        let program = std::env::var_os(PROGRAM)?;
        let folder = tempfile::tempdir().expect("a folder for the kubeconfig");
        let mut child = Command::new(program)
            .args(["up", "--ephemeral", "--listen", "127.0.0.1:0", "--kubeconfig", "kubeconfig"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program named by HOMEOSTAT_TEST_SERVER starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says when it is ready");
        assert!(line.starts_with("ready https://"), "the server said {line:?}");
        Some(Self { child, folder })
    }

    /// Returns a client with the credentials that the server wrote.
    pub(crate) async fn client(&self) -> Client {
        let path = self.folder.path().join("kubeconfig");
        connect(Kubeconfig::read_from(path).expect("it was written")).await
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
