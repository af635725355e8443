//! Input that no proper client sends gets the Status that kube-apiserver returns (codes, reasons and messages recorded
//! from v1.36), or a closed connection if there is no request to answer; and no other client is affected.
//!
//! In every test a healthy client writes and reads at the same time as the hostile one, and everything it wrote exists
//! at the end.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::server::Server;
use crate::wire::Wire;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The maximum size of a body: 3 MiB, as in kube-apiserver.
const BODY_BYTES_MAX: usize = 3 << 20;
/// The time for a healthy request during hostile ones on two busy cores, in a debug build. Without them it takes a few
/// milliseconds.
const HEALTHY_MAX: Duration = Duration::from_secs(5);
/// The number of concurrent clients that never finish their headers.
const SLOW_CLIENTS: usize = 100;
/// The longest time that the server may give a client for its headers.
const SLOW_MAX: Duration = Duration::from_secs(45);

/// A server, a hostile connection to it, and a healthy client.
struct Scene {
    wire: Wire,
    healthy: Healthy,
    server: Server,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::ephemeral(folder.path()).await;
        let healthy = Healthy::start(server.client().await);
        Self { wire: Wire::new(&server), healthy, server, _folder: folder }
    }

    /// Sends a request and compares code, reason and parts of the message.
    async fn check(&self, line: &str, headers: &[&str], body: &[u8], expected: (u16, &str, &str)) {
        let (code, reason, message) = expected;
        let what = format!("{line} {headers:?} {}", String::from_utf8_lossy(&body[..body.len().min(80)]));
        let answer = self.wire.exchange(&self.wire.request(line, headers, body)).await;
        let answer = answer.unwrap_or_else(|| panic!("{what}: closed without an answer"));
        assert_eq!(answer.code, code, "{what}: {}", answer.beginning());
        let status = answer.status();
        assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(code)), "{what}: {status}");
        assert_eq!(status["reason"].as_str().unwrap_or_default(), reason, "{what}: {status}");
        assert!(status["message"].as_str().unwrap_or_default().contains(message), "{what}: {status}");
    }

    /// Posts a ConfigMap body as JSON.
    async fn check_post(&self, body: &str, expected: (u16, &str, &str)) {
        self.check(
            &format!("POST {CONFIG_MAPS}"),
            &["Content-Type: application/json"],
            body.as_bytes(),
            expected,
        )
        .await;
    }

    async fn check_get(&self, path: &str, expected: (u16, &str, &str)) {
        self.check(&format!("GET {path}"), &[], b"", expected).await;
    }

    /// Sends bytes that may not even be a request: refused with a 4xx, or cut off.
    async fn check_refused(&self, what: &str, bytes: &[u8]) {
        let answer = self.wire.exchange(bytes).await;
        let is_refused = answer.as_ref().is_none_or(|answer| (400..500).contains(&answer.code));
        assert!(is_refused, "{what}: {:?}", answer.map(|answer| (answer.code, answer.beginning())));
    }

    async fn finish(self) {
        self.healthy.finish().await;
        self.server.stop().await;
    }
}

#[tokio::test]
async fn unauthenticated_requests_are_counted() {
    let scene = Scene::new().await;
    let stranger = format!(
        "GET /api/v1/pods HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer wrong\r\n\r\n",
        scene.wire.address
    );
    for _ in 0..2 {
        assert_eq!(scene.wire.exchange(stranger.as_bytes()).await.expect("an answer").code, 401);
    }
    let counts = scene.wire.exchange(&scene.wire.request("GET /metrics", &[], b"")).await.expect("an answer");
    let text = String::from_utf8_lossy(&counts.body);
    let line = "apiserver_request_terminations_total{code=\"401\",component=\"apiserver\"} 2";
    assert!(text.lines().any(|found| found == line), "{text}");
    scene.finish().await;
}

#[tokio::test]
async fn bodies_that_are_not_objects() {
    let scene = Scene::new().await;
    let unrecognized =
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind";
    let cannot = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    let nameless =
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
    scene.check_post("{", (400, "BadRequest", unrecognized)).await;
    scene.check_post("", (400, "BadRequest", unrecognized)).await;
    scene.check_post("[]", (400, "BadRequest", unrecognized)).await;
    scene.check_post("\"x\"", (400, "BadRequest", unrecognized)).await;
    scene.check_post("{\"kind\":\"ConfigMap\"} trailing", (400, "BadRequest", unrecognized)).await;
    scene.check_post("null", (422, "Invalid", nameless)).await;
    scene.check_post("{}", (422, "Invalid", nameless)).await;
    for wrong in
        [json!({"metadata": {"name": 5}}), json!({"metadata": []}), named("a", "data", &json!("text"))]
    {
        scene.check_post(&config_map(wrong), (400, "BadRequest", cannot)).await;
    }
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}).to_string();
    scene
        .check_post(&secret, (400, "BadRequest", "Secret in version \"v1\" cannot be handled as a ConfigMap"))
        .await;
    let invalid =
        |name: &str| format!("ConfigMap \"{name}\" is invalid: metadata.name: Invalid value: \"{name}\"");
    for name in ["Upper", "a/b", "../a", "a..b", "-a"] {
        let body = config_map(json!({"metadata": {"name": name}}));
        scene.check_post(&body, (422, "Invalid", &invalid(name))).await;
    }
    let not_utf8 = [b"{\"metadata\":{\"name\":\"".as_slice(), &[0xff, 0xfe], b"\"}}"].concat();
    let post = format!("POST {CONFIG_MAPS}");
    scene
        .check_refused(
            "not UTF-8",
            &scene.wire.request(&post, &["Content-Type: application/json"], &not_utf8),
        )
        .await;
    scene.finish().await;
}

#[tokio::test]
async fn huge_and_deep_bodies() {
    let scene = Scene::new().await;
    let large = config_map(named("a", "data", &json!({"big": "x".repeat((1 << 20) + 1)})));
    scene.check_post(&large, (422, "Invalid", "ConfigMap \"a\" is invalid: []: Too long")).await;
    let too_large = (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
    scene.check_post(&"x".repeat(BODY_BYTES_MAX + 1), too_large).await;
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    scene.check_post(&deep, (400, "BadRequest", "")).await;
    scene.check_post(&"[".repeat(1_000_000), (400, "BadRequest", "")).await;
    let deep_field = config_map(named("a", "data", &serde_json::from_str(&deep_value(100)).unwrap()));
    scene.check_post(&deep_field, (400, "BadRequest", "ConfigMap in version \"v1\" cannot be handled")).await;
    let promised =
        scene.wire.request(&format!("POST {CONFIG_MAPS}"), &["Content-Type: application/json"], b"{}");
    let promised =
        String::from_utf8(promised).unwrap().replace("Content-Length: 2", "Content-Length: 99999999999");
    scene.check_refused("a body of 100 GB is promised", promised.as_bytes()).await;
    scene.finish().await;
}

#[tokio::test]
async fn bad_types_and_patches() {
    let scene = Scene::new().await;
    let post = format!("POST {CONFIG_MAPS}");
    let unknown = (415, "UnsupportedMediaType", "the body of the request was in an unknown format");
    scene.check(&post, &["Content-Type: application/xml"], b"<a/>", unknown).await;
    let yaml = (400, "BadRequest", "the object provided is unrecognized (must be of type ConfigMap): ");
    scene.check(&post, &["Content-Type: application/yaml"], b"{not: [yaml", yaml).await;
    let bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
        d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
        g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\nkind: ConfigMap\napiVersion: v1\n";
    scene
        .check_refused("a YAML bomb", &scene.wire.request(&post, &["Content-Type: application/yaml"], bomb))
        .await;
    let target = format!("{CONFIG_MAPS}/kube-root-ca.crt");
    let patch = format!("PATCH {target}");
    let json_patch = ["Content-Type: application/json-patch+json"];
    let operations = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
    let many = serde_json::to_vec(&operations).unwrap();
    let too_many = (413, "RequestEntityTooLarge", "Request entity too large: The allowed maximum operations");
    scene.check(&patch, &json_patch, &many, too_many).await;
    let absent = serde_json::to_vec(&json!([{"op": "remove", "path": "/data/absent"}])).unwrap();
    let rejected = (422, "Invalid", "the server rejected our request due to an error in our request");
    scene.check(&patch, &json_patch, &absent, rejected).await;
    scene.check(&patch, &["Content-Type: application/merge-patch+json"], b"{", (400, "BadRequest", "")).await;
    scene.finish().await;
}

#[tokio::test]
async fn bad_selectors_and_tokens() {
    let scene = Scene::new().await;
    let field = "invalid selector: 'metadata.name'; can't understand 'metadata.name'";
    for (query, message) in [
        ("fieldSelector=metadata.name", field),
        (
            "fieldSelector=metadata.uid%3Dx",
            "\"metadata.uid\" is not a known field selector: only \"metadata.name\"",
        ),
        ("labelSelector=a%20in%20(", "unable to parse requirement"),
        ("labelSelector=%3D%3D%3D", "found '==', expected: !, identifier, or 'end of string'"),
        ("labelSelector=-bad-%3Dx", "unable to parse requirement"),
        ("limit=abc", "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        ("continue=garbage&limit=1", "invalid continue token: continue key is not valid: "),
        ("continue=%00&limit=1", ""),
        ("resourceVersion=abc", "invalid resource version: resourceVersion: Invalid value: \"abc\""),
    ] {
        scene.check_get(&format!("{CONFIG_MAPS}?{query}"), (400, "BadRequest", message)).await;
    }
    let exact = "resourceVersion=0&resourceVersionMatch=Exact";
    scene
        .check_get(
            &format!("{CONFIG_MAPS}?{exact}"),
            (422, "Invalid", "ListOptions.meta.k8s.io \"\" is invalid"),
        )
        .await;
    for token in tampered_tokens(&scene).await {
        let path = format!("{CONFIG_MAPS}?limit=1&continue={token}");
        let answer =
            scene.wire.exchange(&scene.wire.request(&format!("GET {path}"), &[], b"")).await.unwrap();
        let is_refused = matches!(answer.code, 400 | 410);
        assert!(
            is_refused && answer.status()["kind"] == "Status",
            "{token}: {} {}",
            answer.code,
            answer.status()
        );
    }
    scene.finish().await;
}

/// Returns tampered continue tokens: a truncated one, one that starts in another resource, one with an unknown version,
/// and one that is not an object.
async fn tampered_tokens(scene: &Scene) -> Vec<String> {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let list = scene.wire.request(&format!("GET {CONFIG_MAPS}?limit=1"), &[], b"");
    let page = scene.wire.exchange(&list).await.unwrap().status();
    let token = page["metadata"]["continue"].as_str().expect("more than one ConfigMap").to_owned();
    let inside: Value =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(&token).unwrap_or_default()).unwrap_or_default();
    let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let mut elsewhere = inside.clone();
    elsewhere["start"] = json!("../../secrets/default/a");
    vec![
        token[..token.len() / 2].to_owned(),
        encode(elsewhere),
        encode(json!({"v": "meta.k8s.io/v9"})),
        encode(json!([])),
    ]
}

#[tokio::test]
async fn hostile_paths_and_heads() {
    let scene = Scene::new().await;
    let not_found = (404, "NotFound", "the server could not find the requested resource");
    scene.check_get("/api/v1/namespaces/default/nothings", not_found).await;
    scene.check_get("/api/v1/namespaces/default/ConfigMaps", not_found).await;
    scene.check_get(&format!("{CONFIG_MAPS}/a/nothing"), not_found).await;
    for path in [
        "/../../../../etc/passwd",
        "/api/v1/namespaces/default/configmaps/..%2f..%2f..%2fsecrets",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/default/configmaps/%zz",
        "//api//v1//namespaces//default//configmaps//x",
        "/%61pi/v1/namespaces/default/configmaps/absent",
    ] {
        scene.check_refused(path, &scene.wire.request(&format!("GET {path}"), &[], b"")).await;
    }
    // kube-apiserver's own answer: its storage rejects the key.
    let parent = scene.wire.request("GET /api/v1/namespaces/%2e%2e/configmaps/a", &[], b"");
    let answer = scene.wire.exchange(&parent).await.expect("an answer");
    assert_eq!(answer.code, 500, "{}", answer.beginning());
    assert!(answer.beginning().contains("invalid key"), "{}", answer.beginning());
    let long = format!("GET /{}", "a".repeat(1 << 20));
    scene.check_refused("a path of 1 MiB", &scene.wire.request(&long, &[], b"")).await;
    let header = format!("X-Long: {}", "a".repeat(2 << 20));
    scene.check_refused("a header of 2 MiB", &scene.wire.request("GET /version", &[&header], b"")).await;
    let headers = vec!["X-Many: 1"; 20_000];
    scene.check_refused("20 000 headers", &scene.wire.request("GET /version", &headers, b"")).await;
    scene.check_refused("no HTTP", b"\x00\x01\x02 nonsense\r\n\r\n").await;
    scene
        .check_refused(
            "two lengths",
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        )
        .await;
    scene.finish().await;
}

/// A hundred clients that send their headers one byte at a time, for ever: each is cut off, and the healthy client is
/// still served.
#[tokio::test]
async fn slow_headers() {
    let scene = Scene::new().await;
    let mut slow = JoinSet::new();
    for _ in 0..SLOW_CLIENTS {
        slow.spawn(trickle(scene.wire.connect().await));
    }
    while let Some(cut) = slow.join_next().await {
        assert!(cut.unwrap(), "a client that never finishes its headers was not cut off within {SLOW_MAX:?}");
    }
    scene.finish().await;
}

/// Sends headers slowly; returns whether the server ended the connection.
async fn trickle(stream: tokio_rustls::client::TlsStream<tokio::net::TcpStream>) -> bool {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let send = async {
        let _ = writer.write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
        loop {
            // The pace of this client; the test does not wait for it.
            tokio::time::sleep(Duration::from_millis(200)).await;
            if writer.write_all(b"a").await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    };
    let mut bytes = Vec::new();
    let receive = async {
        let _ = reader.read_to_end(&mut bytes).await;
    };
    let ended = async {
        tokio::select! { () = send => (), () = receive => () }
    };
    tokio::time::timeout(SLOW_MAX, ended).await.is_ok()
}

/// A client that makes ordinary requests and expects ordinary responses until it is stopped.
struct Healthy {
    stop: oneshot::Sender<()>,
    task: JoinHandle<usize>,
    api: Api<ConfigMap>,
}

impl Healthy {
    fn start(client: kube::Client) -> Self {
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(work(api.clone(), stopped));
        Self { stop, task, api }
    }

    /// Checks that everything it wrote exists.
    async fn finish(self) {
        self.stop.send(()).expect("the healthy client is still at work");
        let written = self.task.await.expect("the healthy client noticed nothing");
        assert!(written > 0, "it had time to write");
        let found = self.api.list(&ListParams::default().labels("by=healthy")).await.unwrap();
        assert_eq!(found.items.len(), written, "everything that was acknowledged is there");
    }
}

async fn work(api: Api<ConfigMap>, mut stopped: oneshot::Receiver<()>) -> usize {
    let mut written = 0;
    while stopped.try_recv().is_err() {
        let started = Instant::now();
        let name = format!("healthy-{written}");
        let body =
            serde_json::from_str::<ConfigMap>(&config_map(json!({"metadata": {"name": name}}))).unwrap();
        let labels = Some([("by".to_owned(), "healthy".to_owned())].into());
        let body = ConfigMap { metadata: ObjectMeta { labels, ..body.metadata }, ..body };
        let created = api.create(&PostParams::default(), &body).await.expect("a healthy write succeeds");
        written += 1;
        assert_eq!(api.get(&name).await.expect("a healthy read succeeds"), created);
        assert!(started.elapsed() < HEALTHY_MAX, "a healthy client waited {:?}", started.elapsed());
        // Leaves the processor to the hostile client.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    written
}

/// Returns a ConfigMap with these fields.
fn config_map(mut fields: Value) -> String {
    fields["apiVersion"] = json!("v1");
    fields["kind"] = json!("ConfigMap");
    fields.to_string()
}

fn named(name: &str, field: &str, value: &Value) -> Value {
    json!({"metadata": {"name": name}, field: value})
}

fn deep_value(depth: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth))
}
