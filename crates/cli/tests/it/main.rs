//! The binary from outside: real processes, real signals, a real client.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};

/// A running `homeostat up`, killed when dropped.
struct Up {
    process: Child,
    url: String,
    kubeconfig: PathBuf,
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_homeostat"));
    command.current_dir(folder).arg("up").args(arguments).stdin(Stdio::null());
    command
}

impl Up {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut process = command(folder, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let rest = line.trim_end().strip_prefix("ready ").expect("the ready line");
        let (url, kubeconfig) = rest.split_once(" kubeconfig=").expect("the kubeconfig");
        Self { process, url: url.into(), kubeconfig: folder.join(kubeconfig) }
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Sends the signal and waits for the end; nothing more may have come on stdout.
    fn signal(&mut self, name: &str) -> ExitStatus {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
        let status = self.process.wait().unwrap();
        let mut rest = String::new();
        self.process.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        status
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a command that must fail and gives its exit code and its complaint.
fn failure(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(folder, arguments).output().unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn an_ephemeral_server_answers_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path(), &["--ephemeral", "--listen", "127.0.0.1:0"]);
    assert!(up.url.starts_with("https://127.0.0.1:"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&up.kubeconfig), 0o600);
    assert_eq!(mode(up.kubeconfig.parent().unwrap()), 0o700);
    let namespaces = Api::<Namespace>::all(up.client().await).list(&ListParams::default()).await.unwrap();
    assert_eq!(namespaces.items.len(), 4);
    assert!(up.signal("TERM").success());
    assert!(!up.kubeconfig.parent().unwrap().exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn objects_and_credentials_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "127.0.0.1:0", "--kubeconfig", "config"];
    let mut first = Up::start(folder.path(), &arguments);
    let api = Api::<ConfigMap>::default_namespaced(first.client().await);
    let mut object = ConfigMap::default();
    object.metadata.name = Some("kept".into());
    let created = api.create(&PostParams::default(), &object).await.unwrap();
    assert!(!first.signal("KILL").success());
    let mut second = Up::start(folder.path(), &arguments);
    let api = Api::<ConfigMap>::default_namespaced(second.client().await);
    assert_eq!(api.get("kept").await.unwrap(), created);
    assert!(second.signal("INT").success());
}

#[test]
fn what_keeps_it_from_starting_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path(), &["--listen", "127.0.0.1:0"]);
    let address = up.url.strip_prefix("https://").unwrap();
    let (code, text) = failure(folder.path(), &["--ephemeral", "--listen", address]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with(&format!("error: cannot listen on {address}")), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    let before = std::fs::read(&up.kubeconfig).unwrap();
    let (code, text) = failure(folder.path(), &["--listen", "127.0.0.1:0"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("another process uses it"), "{text}");
    assert_eq!(std::fs::read(&up.kubeconfig).unwrap(), before, "the running server's file is untouched");
    let (code, text) = failure(folder.path(), &["--listen", "127.0.0.1:0", "--data-dir", "/proc/nowhere"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("/proc/nowhere"), "{text}");
    let (code, _) = failure(folder.path(), &["--ephemeral", "--data-dir", "x"]);
    assert_eq!(code, Some(2));
}
