//! What the console's listener answers to unauthenticated clients, to pages of other sites, and to tokens with fewer
//! rights.

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::ConsoleServer;
use crate::server::PATIENCE;

/// A response: its head, and the stream of its body.
pub(super) struct WireAnswer {
    head: String,
    body: BufReader<TcpStream>,
}

impl WireAnswer {
    pub(super) fn code(&self) -> &str {
        self.head.split(' ').nth(1).unwrap()
    }

    /// Reads frames until one with this name arrives; returns all data lines read.
    pub(super) async fn read_until(&mut self, event: &str) -> String {
        let mut text = String::new();
        let reading = async {
            while !text.contains(&format!("event: {event}\n")) {
                assert_ne!(self.body.read_line(&mut text).await.unwrap(), 0, "ended before {event}: {text}");
            }
            self.body.read_line(&mut text).await.unwrap();
        };
        tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| panic!("no {event}"));
        text
    }
}

pub(super) async fn ask(console: &ConsoleServer, path: &str, headers: &[(&str, &str)]) -> WireAnswer {
    let (address, _) = console.address_and_token();
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
    let has_host = headers.iter().any(|(name, _)| *name == "Host");
    let host = if has_host { String::new() } else { "Host: localhost\r\n".to_owned() };
    let headers: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\n{host}{}\r\n", headers.concat()).as_bytes())
        .await
        .unwrap();
    let mut body = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(body.read_line(&mut head).await.unwrap(), 0, "the head ends: {head:?}");
    }
    WireAnswer { head, body }
}

#[tokio::test]
async fn only_the_own_page_with_a_token_gets_data() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let (_, token) = console.address_and_token();
    let bearer = format!("Bearer {token}");
    let check = async |path: &str, headers: &[(&str, &str)], code: &str| {
        let answer = ask(&console, path, headers).await;
        assert_eq!(answer.code(), code, "{path} {headers:?}");
        let head = answer.head.to_lowercase();
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "frame-ancestors 'none'",
        ] {
            assert!(head.contains(header), "{path} lacks {header}: {head}");
        }
        assert!(!head.contains("set-cookie"), "{head}");
    };
    check("/", &[], "200").await;
    check("/console.js", &[], "200").await;
    check("/api/now", &[("Authorization", &bearer)], "200").await;
    check("/api/now", &[], "401").await;
    check("/api/now", &[("Authorization", "Bearer wrong")], "401").await;
    check("/api/object?kind=pods&namespace=a&name=b", &[("Authorization", "Bearer wrong")], "401").await;
    check("/api/log?namespace=a&name=b&container=c", &[("Authorization", "Bearer wrong")], "401").await;
    check("/api/log?namespace=a%2F..&name=b&container=c", &[("Authorization", &bearer)], "400").await;
    check("/api/object?kind=pods&namespace=a&name=..%2F..%2Fsecrets", &[("Authorization", &bearer)], "400")
        .await;
    // A page of another site whose name resolves to this machine, and one that sends requests to it.
    check("/", &[("Host", "evil.example")], "421").await;
    check("/api/now", &[("Host", "evil.example"), ("Authorization", &bearer)], "421").await;
    check("/api/now", &[("Authorization", &bearer), ("Sec-Fetch-Site", "cross-site")], "403").await;
    console.server.stop().await;
}

#[tokio::test]
async fn the_api_refuses_the_token_of_the_console() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let (_, token) = console.address_and_token();
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let request = Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(&review).unwrap()).unwrap();
    let answer: Value = console.server.client().await.request(request).await.unwrap();
    assert_ne!(answer["status"]["authenticated"], true, "{answer}");
}

/// Creates an account that may read ConfigMaps of the namespace `default`; returns its token.
async fn create_viewer(client: &kube::Client) -> String {
    let post = PostParams::default();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "viewer"}})).unwrap();
    accounts.create(&post, &account).await.unwrap();
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    let role = serde_json::from_value(json!({"metadata": {"name": "maps"}, "rules": rules})).unwrap();
    Api::<ClusterRole>::all(client.clone()).create(&post, &role).await.unwrap();
    let binding = serde_json::from_value(json!({
        "metadata": {"name": "maps"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": "default"}],
    }));
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), "default");
    bindings.create(&post, &binding.unwrap()).await.unwrap();
    let request = serde_json::from_value(json!({"metadata": {}, "spec": {"audiences": []}})).unwrap();
    let token = accounts.create_token_request("viewer", &post, &request).await.unwrap();
    format!("Bearer {}", token.status.unwrap().token.unwrap())
}

#[tokio::test]
async fn revoking_a_role_ends_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &["--no-workloads"]).await;
    let client = console.server.client().await;
    let map = serde_json::from_value(json!({"metadata": {"name": "map"}})).unwrap();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &map).await.unwrap();
    let viewer = create_viewer(&client).await;
    let mut stream = ask(&console, "/api/now", &[("Authorization", &viewer)]).await;
    assert!(stream.read_until("synced").await.contains("\"n\":\"map\""));
    let bindings = Api::<RoleBinding>::namespaced(client.clone(), "default");
    bindings.delete("maps", &DeleteParams::default()).await.unwrap();
    let ended = async {
        // The last chunk is empty; the connection itself stays open for further requests.
        let mut line = String::new();
        while stream.body.read_line(&mut line).await.unwrap() > 0 && line != "0\r\n" {
            line.clear();
        }
    };
    // Much shorter than the lifetime of a watch.
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream ends");
    let seen = ask(&console, "/api/now", &[("Authorization", &viewer)]).await.read_until("synced").await;
    assert!(!seen.contains("\"n\":\"map\""), "{seen}");
    console.server.stop().await;
}

#[tokio::test]
async fn a_viewer_sees_what_its_token_may_read_and_no_secret_value() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let client = console.server.client().await;
    let post = PostParams::default();
    let map = |namespace: &str| json!({"metadata": {"name": "map", "namespace": namespace}});
    for namespace in ["default", "kube-system"] {
        Api::<ConfigMap>::namespaced(client.clone(), namespace)
            .create(&post, &serde_json::from_value(map(namespace)).unwrap())
            .await
            .unwrap();
    }
    let secret: Secret = serde_json::from_value(json!({"metadata": {"name": "password", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2-plain"}}, "stringData": {"password": "hunter2-plain"}})).unwrap();
    Api::<Secret>::namespaced(client.clone(), "default").create(&post, &secret).await.unwrap();
    let viewer = create_viewer(&client).await;

    let seen = ask(&console, "/api/now", &[("Authorization", &viewer)]).await.read_until("synced").await;
    assert!(
        seen.contains("\"user\":\"system:serviceaccount:default:viewer\"")
            && seen.contains("\"operators\":false"),
        "{seen}"
    );
    assert!(seen.contains("\"n\":\"map\",\"ns\":\"default\""), "{seen}");
    assert!(
        !seen.contains("\"n\":\"map\",\"ns\":\"kube-system\"") && !seen.contains("\"n\":\"password\""),
        "{seen}"
    );
    let refused = ask(
        &console,
        "/api/object?kind=secrets&namespace=default&name=password",
        &[("Authorization", &viewer)],
    )
    .await;
    assert_eq!(refused.code(), "403");

    let own = format!("Bearer {}", console.address_and_token().1);
    let mut story =
        ask(&console, "/api/object?kind=secrets&namespace=default&name=password", &[("Authorization", &own)])
            .await;
    let told = story.read_until("revision").await;
    assert!(told.contains("(13 bytes, not shown)"), "{told}");
    // The value as sent, and as stored.
    assert!(!told.contains("hunter2-plain") && !told.contains("aHVudGVyMi1wbGFpbg"), "{told}");
    console.server.stop().await;
}

#[tokio::test]
async fn changes_arrive_as_increments() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let own = format!("Bearer {}", console.address_and_token().1);
    let mut live = ask(&console, "/api/now", &[("Authorization", &own)]).await;
    live.read_until("synced").await;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "new-map"}})).unwrap();
    let maps = Api::<ConfigMap>::namespaced(console.server.client().await, "default");
    maps.create(&PostParams::default(), &map).await.unwrap();
    let told = live.read_until("changes").await;
    assert!(told.contains("\"n\":\"new-map\"") && !told.contains("kube-root-ca"), "{told}");
    let mut past = ask(&console, "/api/past", &[("Authorization", &own)]).await;
    // Kinds are read one after the other, so it may be in a later frame.
    while !past.read_until("changes").await.contains("\"n\":\"new-map\"") {}
    // An open stream must not delay the stop.
    console.server.stop().await;
    let mut rest = Vec::new();
    let _ = live.body.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn two_writers_that_fight_over_a_field_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let maps = Api::<ConfigMap>::namespaced(console.server.client().await, "default");
    let map = json!({"metadata": {"name": "contested"}, "data": {"owner": "nobody"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    for round in 0..8 {
        let writer = ["left", "right"][round % 2];
        let patch = Patch::Merge(json!({"data": {"owner": writer}}));
        let parameters = PatchParams { field_manager: Some(writer.to_owned()), ..PatchParams::default() };
        maps.patch("contested", &parameters, &patch).await.unwrap();
    }
    let own = format!("Bearer {}", console.address_and_token().1);
    let told = ask(&console, "/api/now", &[("Authorization", &own)]).await.read_until("fights").await;
    let is_named = |words: &str| told.contains(words);
    assert!(is_named("data.owner") && is_named("[\"left\",\"right\"]"), "{told}");
}

#[tokio::test]
async fn strangers_do_not_lock_the_owner_out() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let (address, token) = console.address_and_token();
    let own = format!("Bearer {token}");
    let mut live = ask(&console, "/api/now", &[("Authorization", &own)]).await;
    let mut strangers = Vec::new();
    for number in 0..400 {
        let mut stranger = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        // Connections that send nothing, and some whose request never ends.
        if number % 2 == 0 {
            stranger.write_all(b"GET /api/now HTTP/1.1\r\nHost: localhost\r\n").await.unwrap();
        }
        strangers.push(stranger);
    }
    let mut second =
        tokio::time::timeout(PATIENCE, ask(&console, "/api/now", &[("Authorization", &own)])).await.unwrap();
    second.read_until("synced").await;
    // The page that was open before stays open.
    live.read_until("synced").await;
    drop(strangers);
}

/// Returns the resident memory of a process in MB.
#[cfg(target_os = "linux")]
fn resident_mb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1000
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn large_objects_do_not_make_the_server_large() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let client = console.server.client().await;
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    for number in 0..40 {
        let map =
            json!({"metadata": {"name": format!("large-{number}")}, "data": {"text": "x".repeat(1_000_000)}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    let own = format!("Bearer {}", console.address_and_token().1);
    let headers = [("Authorization", own.as_str())];
    let object = "/api/object?kind=configmaps&namespace=default&name=large-7";
    let mut told = String::new();
    // First connections that do not read, then some that do, for each page.
    let mut open = Vec::new();
    for path in ["/api/now", "/api/past", object] {
        for _ in 0..3 {
            open.push(ask(&console, path, &headers).await);
        }
        let last = match path {
            "/api/now" => "synced",
            "/api/past" => "changes",
            _ => "object",
        };
        told = ask(&console, path, &headers).await.read_until(last).await;
        assert!(told.contains("large-7") || path == "/api/past", "{path}");
    }
    assert!(told.contains("bytes, cut)") && told.len() < 200_000, "{} bytes", told.len());
    let resident = resident_mb(console.server.pid());
    println!("resident at most: {resident} MB");
    assert!(resident < 200, "{resident} MB");
}

#[tokio::test]
async fn open_streams_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &[]).await;
    let own = format!("Bearer {}", console.address_and_token().1);
    let mut open = Vec::new();
    loop {
        let answer = ask(&console, "/api/now", &[("Authorization", &own)]).await;
        match answer.code() {
            "200" => open.push(answer),
            code => break assert_eq!(code, "429"),
        }
        assert!(open.len() <= 24, "streams are counted");
    }
    drop(open);
    crate::server::eventually("a slot is free again", async || {
        let answer = ask(&console, "/api/now", &[("Authorization", &own)]).await;
        (answer.code() == "200").then_some(())
    })
    .await;
}
