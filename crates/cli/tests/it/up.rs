//! `homeostat up` from outside: one ready line, private files, clean stops, data that exists after the next start, and
//! one line of error if it cannot start.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams, WatchParams};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::server::{Server, command};
use crate::wire::Wire;

#[tokio::test]
async fn an_ephemeral_server_answers_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    assert!(server.url.starts_with("https://127.0.0.1:"));
    let kubeconfig = server.kubeconfig.clone();
    let private = kubeconfig.parent().unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&kubeconfig), mode(private)), (0o600, 0o700), "for its owner only");
    let namespaces = Api::<Namespace>::all(server.client().await).list(&ListParams::default()).await.unwrap();
    let names: Vec<&str> =
        namespaces.iter().filter_map(|namespace| namespace.metadata.name.as_deref()).collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    server.stop().await;
    assert!(!private.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// However it ends, acknowledged writes and the credentials exist at the next start.
#[tokio::test]
async fn objects_and_credentials_survive_every_end() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--kubeconfig", "config"];
    let mut server = Server::start(folder.path(), &arguments).await;
    let created = config_maps(&server).await.create(&PostParams::default(), &named("kept")).await.unwrap();
    for (signal, code) in [("KILL", None), ("TERM", Some(0)), ("INT", Some(0))] {
        assert_eq!(server.signal(signal).await.code(), code, "{signal}");
        server = Server::start(folder.path(), &arguments).await;
        assert_eq!(config_maps(&server).await.get("kept").await.unwrap(), created, "{signal}");
    }
}

/// An open watch must not delay the stop.
#[tokio::test]
async fn stops_although_a_client_watches() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let watch = config_maps(&server).await.watch(&WatchParams::default(), "0").await.unwrap();
    server.stop().await;
    drop(watch);
}

/// A stop waits some seconds for a request in progress. A second signal ends the wait.
#[tokio::test]
async fn a_second_signal_ends_it_at_once_unless_both_arrive_together() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::durable(folder.path()).await;
    let half = half_a_request(&server).await;
    // The process is paused meanwhile, so that both signals arrive together however busy the machine is.
    for signal in ["STOP", "TERM", "INT"] {
        server.send(signal).await;
    }
    assert_eq!(server.signal("CONT").await.code(), Some(0), "two simultaneous signals count as one");
    drop(half);
    let server = Server::durable(folder.path()).await;
    let half = half_a_request(&server).await;
    assert_eq!(server.insist("TERM").await.code(), Some(1), "two successive signals count as two");
    drop(half);
}

/// Sends a request without its last byte, and returns the connection once the server has asked for the body.
async fn half_a_request(server: &Server) -> impl Sized + use<> {
    let wire = Wire::new(server);
    let mut half = wire.connect().await;
    let headers = ["Expect: 100-continue"];
    let request = wire.request("POST /api/v1/namespaces/default/configmaps", &headers, b"{}");
    half.write_all(&request[..request.len() - 2]).await.unwrap();
    let mut answer = [0; 12];
    half.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 100", "it asks for the body");
    half.write_all(&request[request.len() - 2..request.len() - 1]).await.unwrap();
    half
}

#[tokio::test]
async fn a_failed_start_is_explained_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::durable(folder.path()).await;
    let address = server.url.strip_prefix("https://").unwrap();
    let taken = format!("error: cannot listen on {address}");
    let before = std::fs::read(&server.kubeconfig).unwrap();
    check_refused(folder.path(), &["--ephemeral", "--listen", address], 1, &taken).await;
    check_refused(folder.path(), &[], 1, "another process uses it").await;
    check_refused(folder.path(), &["--data-dir", "/proc/nowhere"], 1, "/proc/nowhere").await;
    check_refused(folder.path(), &["--ephemeral", "--data-dir", "x"], 2, "").await;
    check_refused(folder.path(), &["--image", "web=sleep 9"], 2, "has no effect without a node: add --node")
        .await;
    assert_eq!(std::fs::read(&server.kubeconfig).unwrap(), before, "the running server's file is untouched");
}

/// Checks that it fails with the code and, unless the usage is wrong, prints one line.
async fn check_refused(folder: &Path, arguments: &[&str], code: i32, complaint: &str) {
    let output = command(folder, arguments).output().await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(code), b"".as_slice()),
        "{arguments:?}: {text}"
    );
    assert!(text.contains(complaint), "{arguments:?}: {text}");
    assert!(code == 2 || text.lines().count() == 1, "{arguments:?}: {text}");
}

async fn config_maps(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(server.client().await, "default")
}

fn named(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object
}
