//! The example operators in a real environment: `homeostat up --node` or a kube-apiserver (`cluster`), the operators as
//! separate programs that only have a kubeconfig, stock kubectl, and PostgreSQL if it is installed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use homeostat::testing::skip_without;
use homeostat_core::Clock;
use tokio::process::{Child, Command};

use crate::cluster::Cluster;
use crate::pods::{kubectl, told};
use crate::server::eventually;

/// Returns a program built next to this test; builds it if it does not exist.
fn program(name: &str) -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().to_owned();
    let program = folder.join(name);
    if !program.exists() {
        let package = format!("homeostat-example-{name}");
        let release: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built =
            std::process::Command::new(cargo).args(["build", "--package", &package]).args(release).status();
        assert!(built.unwrap().success(), "{package} does not build");
    }
    program
}

/// Starts an operator against the server and waits until its kind is served.
async fn operator(server: &Cluster, name: &str, kind: &str, data: &Path) -> Child {
    let child = Command::new(program(name))
        .arg("--kubeconfig")
        .arg(server.as_ref())
        .env("DATABASE_FOLDER", data)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("its kind is served", || async { kubectl(server, &["get", kind]).await.ok() }).await;
    child
}

async fn apply(server: &Cluster, folder: &Path, text: &str) {
    let file = folder.join("object.yaml");
    std::fs::write(&file, text).unwrap();
    told(server, &["apply", "-f", file.to_str().unwrap()]).await;
}

async fn wait(server: &Cluster, object: &str, what: &str) {
    told(server, &["wait", object, &format!("--for={what}"), "--timeout=50s"]).await;
}

async fn field(server: &Cluster, object: &str, path: &str) -> String {
    told(server, &["get", object, "-o", &format!("jsonpath={{{path}}}")]).await
}

async fn is_gone(server: &Cluster, object: &str) {
    eventually("it is gone", || async { kubectl(server, &["get", object]).await.is_err().then_some(()) })
        .await;
}

fn at(name: &str, schedule: &str) -> String {
    format!(
        "apiVersion: cnat.programming-kubernetes.info/v1alpha1\nkind: At\nmetadata: {{name: {name}}}\n\
         spec: {{schedule: {schedule:?}, command: 'echo Hello Kubernetes; sleep 2'}}\n"
    )
}

#[tokio::test]
async fn an_at_takes_its_seven_steps() {
    let folder = tempfile::tempdir().unwrap();
    let server = Cluster::start(folder.path(), None).await;
    let _operator = operator(&server, "at", "ats", folder.path()).await;
    let due = Clock::system().now() + Duration::from_secs(6);
    apply(&server, folder.path(), &at("demo", &format!("{due:.0}"))).await;
    wait(&server, "at/demo", "jsonpath={.status.phase}=PENDING").await;
    assert!(kubectl(&server, &["get", "pod", "demo-pod"]).await.is_err(), "not before its time");
    wait(&server, "at/demo", "jsonpath={.status.phase}=RUNNING").await;
    assert!(Clock::system().now() >= due - Duration::from_secs(1));
    wait(&server, "at/demo", "jsonpath={.status.phase}=DONE").await;
    if !server.lacks("logs: a kube-apiserver asks the kubelet for them, and our node is none") {
        assert_eq!(told(&server, &["logs", "demo-pod"]).await, "Hello Kubernetes\n");
    }
    let described = eventually("all events are told", || async {
        let text = told(&server, &["describe", "at", "demo"]).await;
        ["Scheduled", "Due", "Started", "Succeeded", "DONE"]
            .iter()
            .all(|word| text.contains(word))
            .then_some(text)
    })
    .await;
    assert!(described.contains("runs in Pod demo-pod"), "{described}");
    let table = told(&server, &["get", "ats"]).await;
    assert!(table.starts_with("NAME   SCHEDULE") && table.contains("PHASE"), "{table}");

    apply(&server, folder.path(), &at("bad", "tomorrow")).await;
    wait(&server, "at/bad", "condition=Scheduled=False").await;
    wait(&server, "at/bad", "condition=Reconciled=False").await;
    told(&server, &["delete", "at", "demo", "--wait=true"]).await;
    is_gone(&server, "pod/demo-pod").await;
    server.stop().await;
}

/// Returns the path of PostgreSQL's client, if PostgreSQL is installed.
fn psql() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let hidden = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&path).chain(hidden).collect::<Vec<_>>();
    all.iter().any(|folder| folder.join("postgres").is_file()).then_some(())?;
    all.iter().map(|folder| folder.join("psql")).find(|program| program.is_file())
}

/// Returns the answer of the database; `None` while it does not answer.
async fn query(server: &Cluster, psql: &Path, sql: &str) -> Option<String> {
    use base64::Engine as _;
    let endpoint = field(server, "db/orders", ".status.endpoint").await;
    let (host, port) = endpoint.split_once(':')?;
    let password = field(server, "secret/orders-credentials", ".data.password").await;
    let password = String::from_utf8(base64::prelude::BASE64_STANDARD.decode(password).unwrap()).unwrap();
    let output = Command::new(psql)
        .args(["--no-psqlrc", "-qAt", "-h", host, "-p", port, "-U", "orders", "-d", "orders", "-c", sql])
        .env("PGPASSWORD", password)
        .output()
        .await
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

async fn answers(server: &Cluster, psql: &Path, sql: &str, expected: &str) {
    eventually(&format!("{sql} gives {expected}"), || async {
        (query(server, psql, sql).await? == expected).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_database_is_created_changed_repaired_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    // If the server is root, Pods run as other users, so the folder must be accessible to all.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
    let data = folder.path().join("databases");
    // The data is in a folder of the machine, where every Pod finds what the previous one wrote: all run as the same
    // user.
    let own = rustix::process::getuid().as_raw().to_string();
    let server = Cluster::start(folder.path(), Some(&own)).await;
    let _operator = operator(&server, "database", "databases", &data).await;
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/database/sample.yaml");
    told(&server, &["apply", "-f", sample]).await;
    let Some(psql) = skip_without(psql(), "PostgreSQL", "apt-get install postgresql") else {
        let reason = "jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=PostgresNotInstalled";
        return wait(&server, "db/orders", reason).await;
    };
    wait(&server, "db/orders", "condition=Ready").await;
    let insert = "CREATE TABLE fruit (name text); INSERT INTO fruit VALUES ('pear'); SELECT name FROM fruit";
    answers(&server, &psql, insert, "pear").await;

    let update = r#"{"spec": {"maxConnections": 33, "parameters": {"work_mem": "9MB"}}}"#;
    told(&server, &["patch", "db", "orders", "--type=merge", "-p", update]).await;
    answers(&server, &psql, "SHOW max_connections", "33").await;
    answers(&server, &psql, "SHOW work_mem", "9MB").await;
    answers(&server, &psql, "SELECT name FROM fruit", "pear").await;

    for child in ["statefulset", "service"] {
        let before = field(&server, &format!("{child}/orders"), ".metadata.uid").await;
        told(&server, &["delete", child, "orders"]).await;
        eventually("it is made again", || async {
            let path = "jsonpath={.metadata.uid}";
            kubectl(&server, &["get", child, "orders", "-o", path]).await.ok().filter(|uid| *uid != before)
        })
        .await;
    }
    answers(&server, &psql, "SELECT name FROM fruit", "pear").await;

    told(&server, &["delete", "db", "orders", "--timeout=50s"]).await;
    for child in ["statefulset/orders", "service/orders", "secret/orders-credentials", "pod/orders-0"] {
        is_gone(&server, child).await;
    }
    assert!(!data.join("default/orders").exists(), "the data is deleted as well");
    server.stop().await;
}
