//! Access: the server and the operators reveal nothing about an object to users who may not get it, not even whether it
//! exists; and never the value of a Secret.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::operators::{create, start};
use super::{names, why};
use crate::pods::{kubectl, told};
use crate::server::{Server, eventually};

/// Returns the answer of an operator's admin server about a Task.
async fn journal(admin: SocketAddr, token: Option<&str>, name: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(admin).await.unwrap();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let path = format!("/journal?group=why.homeostat.dev&resource=tasks&namespace=default&name={name}");
    let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\n{token}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    // The date of the response reveals nothing about the object.
    answer.lines().filter(|line| !line.starts_with("date:")).collect::<Vec<_>>().join("\n")
}

async fn token(server: &Server, account: &str) -> String {
    told(server, &["create", "serviceaccount", account]).await;
    told(server, &["create", "token", account]).await.trim().to_owned()
}

#[tokio::test]
async fn operators_tell_only_those_who_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let faulty = start(&server, folder.path()).await;
    let task = r#"{"apiVersion": "why.homeostat.dev/v1", "kind": "Task", "metadata": {"name": "child"}, "spec": {"fault": "child"}}"#;
    create(&server, folder.path(), task).await;
    names(&server.kubeconfig, &["task", "child"], &["not a key!"]).await;

    let (stranger, reader) = (token(&server, "stranger").await, token(&server, "reader").await);
    told(&server, &["create", "role", "reader", "--verb=get", "--resource=tasks.why.homeostat.dev"]).await;
    told(&server, &["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=default:reader"])
        .await;
    assert!(journal(faulty.admin, None, "child").await.starts_with("HTTP/1.1 401"));
    assert!(journal(faulty.admin, Some("made up"), "child").await.starts_with("HTTP/1.1 401"));
    let there = journal(faulty.admin, Some(&stranger), "child").await;
    assert!(there.starts_with("HTTP/1.1 404"), "{there}");
    assert_eq!(
        there,
        journal(faulty.admin, Some(&stranger), "missing").await,
        "the answer does not reveal whether it exists"
    );

    let told_reader = journal(faulty.admin, Some(&reader), "child").await;
    assert!(told_reader.starts_with("HTTP/1.1 200") && told_reader.contains("failed"), "{told_reader}");
    assert!(!told_reader.contains("\"wrote\""), "the reader may not get ConfigMaps: {told_reader}");
    server.stop().await;
}

#[tokio::test]
async fn the_server_tells_only_those_who_may_read_and_no_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    told(&server, &["create", "secret", "generic", "login", "--from-literal=word=hunter2"]).await;
    told(&server, &["patch", "secret", "login", "-p", r#"{"stringData": {"word": "hunter3"}}"#]).await;
    let path =
        |name: &str| format!("/homeostat/history?group=&resource=secrets&namespace=default&name={name}");
    let history = told(&server, &["get", "--raw", &path("login")]).await;
    assert!(history.contains("data.word") && history.contains("kubectl"), "{history}");
    assert!(!history.contains("hunter") && !history.contains("aHVudGVy"), "{history}");

    let stranger = ["--as=nobody", "get", "--raw"];
    let ask = |name: &'static str| {
        let (server, path) = (&server, path(name));
        async move { kubectl(server, &[&stranger[..], &[&path]].concat()).await }
    };
    let there = ask("login").await;
    assert_eq!(there, ask("missing").await, "the answer does not reveal whether it exists");
    assert!(there.unwrap().contains(r#""writes":[]"#));

    let text = eventually("why tells of the write", || async {
        let text = why(&server.kubeconfig, &["secret", "login"]).await;
        text.contains("data.word changed").then_some(text)
    })
    .await;
    assert!(!text.contains("hunter") && !text.contains("aHVudGVy"), "{text}");
    server.stop().await;
}

/// Any program of the caller's user, such as a Pod of a server that is not root, can listen and announce itself as an
/// operator. It gets a token that is useless elsewhere, never the caller's own, and control characters in its
/// announcement do not reach the terminal.
#[tokio::test]
async fn a_false_operator_does_not_get_the_callers_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 8192];
        let length = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    for (name, address) in [("announced", address.as_str()), ("odd", "\u{1b}]52;c;eA==\u{7}")] {
        let annotations = serde_json::json!({"homeostat.dev/admin-address": address});
        let lease = serde_json::json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "annotations": annotations}});
        create(&server, folder.path(), &lease.to_string()).await;
    }
    told(&server, &["create", "configmap", "c"]).await;
    let text = why(&server.kubeconfig, &["configmap", "c"]).await;
    let request = received.await.unwrap().to_lowercase();
    assert!(request.starts_with("get /journal"), "{request}");
    assert!(!request.contains("authorization"), "{request}");
    assert!(request.contains("homeostat-caller-token: "), "{request}");
    assert!(text.contains("\\u{1b}]52") && !text.contains('\u{1b}'), "{text:?}");
    server.stop().await;
}
