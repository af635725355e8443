//! A running `homeostat up`: started on a free port in its own folder, with signals and a kube client.
//!
//! **Invariant:** the process never outlives the test: dropping a [`Server`] kills it.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// The longest wait for anything. It only ends a test that hangs: a healthy server needs seconds, even on a machine
/// with ten times more work than cores.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

/// A process that is ready.
pub(crate) struct Server {
    process: Child,
    output: BufReader<ChildStdout>,
    log: File,
    pub(crate) url: String,
    pub(crate) kubeconfig: PathBuf,
    /// The address of its console, including the token, if it has one.
    pub(crate) console_url: Option<Box<str>>,
}

impl AsRef<Path> for Server {
    /// Its kubeconfig, which is all that clients know.
    fn as_ref(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Server {
    /// Starts with its data in the folder.
    pub(crate) async fn durable(folder: &Path) -> Self {
        Self::start(folder, &[]).await
    }

    /// Starts with its data in memory.
    pub(crate) async fn ephemeral(folder: &Path) -> Self {
        Self::start(folder, &["--ephemeral"]).await
    }

    /// Starts in `folder`, on any free port, and waits for the ready line.
    pub(crate) async fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::started(folder, command(folder, arguments)).await
    }

    /// Starts this command in `folder` and waits for the ready line.
    pub(crate) async fn started(folder: &Path, mut command: Command) -> Self {
        let mut log = tempfile::tempfile().expect("a file for the log");
        let stderr = log.try_clone().expect("two handles of one file");
        let mut process = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("it starts");
        let mut output = BufReader::new(process.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, output.read_line(&mut line)).await;
        let ready = line.trim_end().strip_prefix("ready ").and_then(|rest| rest.split_once(" kubeconfig="));
        let Some((url, kubeconfig)) = ready else {
            panic!("no ready line ({read:?}) but {line:?}; the log says:\n{}", whole(&mut log));
        };
        let (kubeconfig, console) = match kubeconfig.split_once(" console=") {
            Some((kubeconfig, console)) => (kubeconfig, Some(console.into())),
            None => (kubeconfig, None),
        };
        let kubeconfig = folder.join(kubeconfig);
        Self { process, url: url.to_owned(), kubeconfig, console_url: console, output, log }
    }

    /// Returns what it has written to stderr so far.
    pub(crate) fn complaints(&mut self) -> String {
        whole(&mut self.log)
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id().expect("it is running")
    }

    /// Starts it and kills it `after` this time, ready or not.
    pub(crate) async fn kill_while_starting(folder: &Path, after: Duration) {
        let silent = || Stdio::null();
        let mut process = command(folder, &[]).stdout(silent()).stderr(silent()).spawn().expect("it starts");
        // Chooses the moment of the crash; nothing waits for this.
        tokio::time::sleep(after).await;
        process.kill().await.expect("a child can be killed");
    }

    /// Returns a client with the administrator's credentials. It does not retry: a test needs to see every failure.
    pub(crate) async fn client(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).expect("the server wrote a kubeconfig");
        let options = KubeConfigOptions::default();
        let mut config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.expect("it is complete");
        config.default_retry = false;
        kube::Client::try_from(config).expect("its certificates are valid")
    }

    /// Sends `kill -9`, and waits until the process is gone.
    pub(crate) async fn kill(mut self) {
        self.process.kill().await.expect("a child can be killed");
    }

    /// Sends the signal and does not wait for its effect.
    pub(crate) async fn send(&self, name: &str) {
        let arguments = [format!("-{name}"), self.pid().to_string()];
        let sent = Command::new("kill").args(arguments).status().await.expect("kill is everywhere");
        assert!(sent.success(), "the signal reaches the process");
    }

    /// Sends the signal and waits for the end; stdout must have no further output.
    pub(crate) async fn signal(mut self, name: &str) -> ExitStatus {
        self.send(name).await;
        let ended = tokio::time::timeout(PATIENCE, self.process.wait()).await;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).await.expect("stdout is text");
        assert_eq!(rest, "", "the ready line is all that is printed");
        ended.expect("the server ends").expect("a child can be waited for")
    }

    /// Sends the signal repeatedly until the process ends.
    pub(crate) async fn insist(mut self, name: &str) -> ExitStatus {
        let arguments = [format!("-{name}"), self.pid().to_string()];
        let insisting = async {
            loop {
                // Fails only if the process has just ended.
                let _ = Command::new("kill").args(&arguments).output().await;
                let ended = tokio::time::timeout(Duration::from_millis(50), self.process.wait()).await;
                if let Ok(ended) = ended {
                    return ended.expect("a child can be waited for");
                }
            }
        };
        tokio::time::timeout(PATIENCE, insisting).await.expect("the server ends")
    }

    /// Stops it cleanly.
    pub(crate) async fn stop(self) {
        assert_eq!(self.signal("TERM").await.code(), Some(0));
    }
}

/// Returns the command `homeostat up` in `folder`, on any free port.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat"));
    command.current_dir(folder).arg("up").args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command
}

fn whole(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind()
        .and_then(|()| file.read_to_string(&mut text))
        .map_or_else(|error| error.to_string(), |_| text)
}

/// Repeats the request until it succeeds. The pause only saves processor time.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> T {
    let wait = async {
        loop {
            if let Some(answer) = probe().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}
