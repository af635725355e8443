//! `homeostat up --node` with stock kubectl: Pods run as processes, their output and status are shown, they are found
//! again after a kill, and nothing is left behind.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::server::{PATIENCE, Server, eventually};

/// Returns what kubectl printed, if it succeeded.
pub(crate) async fn kubectl(server: &impl AsRef<Path>, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(server.as_ref())
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output =
        tokio::time::timeout(PATIENCE, output).await.expect("kubectl ends").expect("kubectl is installed");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

pub(crate) async fn told(server: &impl AsRef<Path>, arguments: &[&str]) -> String {
    kubectl(server, arguments).await.unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
}

/// Creates a Pod that runs a shell.
pub(crate) async fn run(server: &Server, name: &str, restart: &str, script: &str) {
    let restart = format!("--restart={restart}");
    told(server, &["run", name, "--image=none", &restart, "--command", "--", "sh", "-c", script]).await;
}

pub(crate) async fn ready(server: &Server, name: &str) {
    told(server, &["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=60s"]).await;
}

/// Returns a field of the Pod's only container.
async fn field(server: &Server, name: &str, path: &str) -> String {
    let path = format!("jsonpath={{.status.containerStatuses[0].{path}}}");
    told(server, &["get", "pod", name, "-o", &path]).await
}

pub(crate) async fn pid(server: &Server, name: &str) -> u32 {
    field(server, name, "containerID").await.strip_prefix("process://").unwrap().parse().unwrap()
}

/// Returns a folder for the files of Pods. If the server is root, Pods run as other users, so the folder must be
/// accessible to all.
pub(crate) fn passable_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Returns every process that a node in this folder started, including its supervisor.
fn processes_of(folder: &Path) -> Vec<String> {
    let path = folder.to_string_lossy().into_owned();
    // Found by a hash of the node's folder: containers should not know its path.
    let mark = homeostat_core::hash::fnv_64(folder.join("node").as_os_str().as_encoded_bytes());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| {
            let bytes = std::fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let command = read("cmdline");
        if read("environ").contains(&format!("HOMEOSTAT_NODE={mark:016x}"))
            || (command.contains("homeostat-node-supervisor") && command.contains(&path))
        {
            found.push(command);
        }
    }
    found
}

async fn nothing_runs_in(folder: &Path) {
    eventually("no process is left", || async { processes_of(folder).is_empty().then_some(()) }).await;
}

#[tokio::test]
async fn kubectl_runs_reads_and_deletes_pods() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--node", "--image", "greeter=echo hello"]).await;
    assert!(told(&server, &["get", "nodes"]).await.contains("Ready"));

    run(&server, "steps", "Never", "for i in 1 2 3; do echo step $i; sleep 0.1; done").await;
    told(&server, &["wait", "--for=jsonpath={.status.containerStatuses}", "pod/steps", "--timeout=60s"])
        .await;
    eventually("it started", || async { kubectl(&server, &["logs", "steps"]).await.ok() }).await;
    assert_eq!(told(&server, &["logs", "-f", "steps"]).await, "step 1\nstep 2\nstep 3\n");
    assert_eq!(told(&server, &["logs", "steps", "--tail=1", "-c", "steps"]).await, "step 3\n");
    assert_eq!(told(&server, &["logs", "steps", "--limit-bytes=4"]).await, "step");
    assert_eq!(told(&server, &["logs", "steps", "--since=1h", "--timestamps"]).await.lines().count(), 3);
    assert!(told(&server, &["get", "pod", "steps"]).await.contains("Completed"));

    run(&server, "words", "Never", "echo the disk is full > /dev/termination-log; exit 3").await;
    told(&server, &["wait", "--for=jsonpath={.status.phase}=Failed", "pod/words", "--timeout=60s"]).await;
    assert!(told(&server, &["describe", "pod", "words"]).await.contains("the disk is full"));

    told(&server, &["run", "image", "--image=greeter", "--restart=Never", "--", "you"]).await;
    told(&server, &["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/image", "--timeout=60s"]).await;
    assert_eq!(told(&server, &["logs", "image"]).await, "hello you\n");

    run(&server, "crash", "Always", "echo attempt; exit 1").await;
    eventually("it was restarted", || async {
        kubectl(&server, &["logs", "crash", "--previous"]).await.ok().filter(|text| text == "attempt\n")
    })
    .await;
    let error = kubectl(&server, &["logs", "steps", "--previous"]).await.unwrap_err();
    assert!(error.contains("previous terminated container \"steps\" in pod \"steps\" not found"), "{error}");
    let error = kubectl(&server, &["logs", "steps", "-c", "other"]).await.unwrap_err();
    assert!(error.contains("container other is not valid for pod steps"), "{error}");

    run(&server, "deaf", "Always", "trap '' TERM; while :; do sleep 0.05; done").await;
    ready(&server, "deaf").await;
    let process = pid(&server, "deaf").await;
    told(&server, &["delete", "pod", "deaf", "--grace-period=1"]).await;
    assert!(!is_alive(process), "the process has ended when kubectl returns");
    server.stop().await;
    nothing_runs_in(&folder.path().canonicalize().unwrap()).await;
}

/// Killing the server loses nothing: processes are found again, those that ended in the meantime are reported, and
/// nothing is left over.
#[tokio::test]
async fn a_killed_server_finds_its_pods_again() {
    let folder = passable_folder();
    let root = folder.path().canonicalize().unwrap();
    let server = Server::start(&root, &["--node"]).await;
    let go = root.join("go");
    run(&server, "stays", "Always", "exec sleep 1000").await;
    run(&server, "ends", "Never", &format!("while ! test -e {}; do sleep 0.05; done; exit 7", go.display()))
        .await;
    run(&server, "forced", "Always", "exec sleep 1000").await;
    for name in ["stays", "ends", "forced"] {
        ready(&server, name).await;
    }
    let (stays, ends, forced) =
        (pid(&server, "stays").await, pid(&server, "ends").await, pid(&server, "forced").await);
    told(&server, &["delete", "pod", "forced", "--grace-period=0", "--force"]).await;
    server.kill().await;
    assert!(is_alive(stays));
    std::fs::write(go, "").unwrap();
    eventually("it ends without a server", || async { (!is_alive(ends)).then_some(()) }).await;

    let server = Server::start(&root, &["--node"]).await;
    told(&server, &["wait", "--for=jsonpath={.status.phase}=Failed", "pod/ends", "--timeout=60s"]).await;
    assert_eq!(field(&server, "ends", "state.terminated.exitCode").await, "7");
    eventually("the deleted one ends", || async { (!is_alive(forced)).then_some(()) }).await;
    ready(&server, "stays").await;
    assert_eq!(
        (pid(&server, "stays").await, field(&server, "stays", "restartCount").await),
        (stays, "0".to_owned())
    );
    assert!(is_alive(stays));
    told(&server, &["delete", "pod", "stays", "ends", "--grace-period=1"]).await;
    assert!(!is_alive(stays));
    server.stop().await;
    nothing_runs_in(&root).await;
}

/// A Pod that requests a token without naming an account gets that of the default account, as in Kubernetes.
#[tokio::test]
async fn a_pod_without_an_account_gets_a_token_of_the_default_account() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    let script = "cut -d. -f2 $HOMEOSTAT_VOLUMES/own/vault | tr '_-' '/+' | base64 -d 2>/dev/null; true";
    let token = serde_json::json!({"serviceAccountToken": {"path": "vault", "audience": "vault"}});
    let job = serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "asks"},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "own", "mountPath": "/homeostat-test"}]}],
            "volumes": [{"name": "own", "projected": {"sources": [token]}}]}}}});
    let manifest = folder.path().join("job.json");
    std::fs::write(&manifest, job.to_string()).unwrap();
    told(&server, &["apply", "-f", manifest.to_str().unwrap()]).await;
    told(&server, &["wait", "--for=condition=Complete", "job/asks", "--timeout=60s"]).await;
    let claims = told(&server, &["logs", "job/asks"]).await;
    assert!(claims.contains("system:serviceaccount:default:default"), "{claims}");
    server.stop().await;
}

/// A Job counts restarts as failures, but not a stop and restart of its node.
#[tokio::test]
async fn a_job_without_retries_survives_its_node() {
    let folder = passable_folder();
    let root = folder.path().canonicalize().unwrap();
    let (go, manifest) = (root.join("go"), root.join("job.json"));
    let script = format!("while ! test -e {}; do sleep 0.05; done", go.display());
    let job = serde_json::json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "OnFailure",
            "containers": [{"name": "main", "image": "none", "command": ["sh", "-c", script]}]}}}});
    std::fs::write(&manifest, job.to_string()).unwrap();
    let server = Server::start(&root, &["--node"]).await;
    told(&server, &["apply", "-f", manifest.to_str().unwrap()]).await;
    told(&server, &["wait", "--for=jsonpath={.status.ready}=1", "job/once", "--timeout=60s"]).await;
    server.stop().await;
    let server = Server::start(&root, &["--node"]).await;
    let last = "--for=jsonpath={.status.containerStatuses[0].lastState.terminated.reason}=NodeStopped";
    told(&server, &["wait", last, "pod", "-l", "job-name=once", "--timeout=60s"]).await;
    std::fs::write(&go, "").unwrap();
    told(&server, &["wait", "--for=condition=Complete", "job/once", "--timeout=60s"]).await;
    server.stop().await;
}

/// A server without a disk cannot resume anything: its processes end with it, however it ends.
#[tokio::test]
async fn the_pods_of_an_ephemeral_server_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    run(&server, "short", "Always", "exec sleep 1000").await;
    ready(&server, "short").await;
    let process = pid(&server, "short").await;
    let home = std::fs::read_link(format!("/proc/{process}/cwd")).unwrap();
    server.kill().await;
    eventually("it ends with the server", || async { (!is_alive(process)).then_some(()) }).await;
    eventually("so do its files", || async { (!home.exists()).then_some(()) }).await;
}

/// Applying a manifest executes nothing by default.
#[tokio::test]
async fn without_a_node_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    run(&server, "idle", "Always", "touch ran").await;
    assert_eq!(told(&server, &["logs", "idle"]).await, "", "a Pod that is not bound has no logs");
    assert_eq!(told(&server, &["get", "pod", "idle", "-o", "jsonpath={.status.phase}"]).await, "Pending");
    eventually("it is told why", || async {
        let described = told(&server, &["describe", "pod", "idle"]).await;
        (described.contains("FailedScheduling") && described.contains("`homeostat up --node`")).then_some(())
    })
    .await;
    let bound = r#"{"spec": {"nodeName": "elsewhere"}}"#;
    told(&server, &["run", "bound", "--image=none", "--overrides", bound]).await;
    let error = kubectl(&server, &["logs", "bound"]).await.unwrap_err();
    assert!(error.contains("nodes \"elsewhere\" not found"), "{error}");
}
