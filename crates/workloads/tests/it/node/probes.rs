//! Tests probes: readiness shows in the status, liveness restarts, startup delays the others.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::test_cluster::{TestCluster, condition, main_status};

fn sleeper(name: &str, probe: Value) -> Value {
    let mut container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"]});
    container[name] = probe;
    json!({"terminationGracePeriodSeconds": 1, "containers": [container]})
}

#[tokio::test]
async fn a_command_tells_readiness_both_ways() {
    let lab = TestCluster::new().await;
    let probe = json!({"exec": {"command": ["sh", "-c", "test -e $HOME/ready || { echo not yet; exit 1; }"]},
        "periodSeconds": 1, "failureThreshold": 1});
    let pod = lab.pod("gate", sleeper("readinessProbe", probe)).await;
    lab.until_phase("gate", "Running").await;
    lab.until_event("gate", "Unhealthy", "Readiness probe failed: not yet").await;
    assert_eq!(condition(&lab.get("gate").await.unwrap(), "Ready"), "False");
    let file = lab.folder().join("pods").join(pod.metadata.uid.unwrap()).join("work/ready");
    std::fs::write(&file, "").unwrap();
    lab.until_ready("gate").await;
    std::fs::remove_file(file).unwrap();
    let pod = lab.until("gate", "unready", |pod| condition(pod, "ContainersReady") == "False").await;
    assert_eq!(main_status(&pod).unwrap().restart_count, 0);
}

#[tokio::test]
async fn a_failed_liveness_probe_restarts() {
    let lab = TestCluster::new().await;
    let probe = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1});
    lab.pod("sick", sleeper("livenessProbe", probe)).await;
    let pod = lab
        .until("sick", "restarted", |pod| main_status(pod).is_some_and(|one| one.restart_count >= 1))
        .await;
    let last = main_status(&pod).unwrap().last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(last.exit_code, 143, "it was told to end");
    lab.until_event("sick", "Killing", "Container main failed liveness probe, will be restarted").await;
}

/// A probe may allow less time than the Pod does.
#[tokio::test]
async fn a_failed_probe_has_a_grace_of_its_own() {
    let lab = TestCluster::new().await;
    let probe = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1,
        "terminationGracePeriodSeconds": 1});
    let mut spec = sleeper("livenessProbe", probe);
    spec["terminationGracePeriodSeconds"] = json!(600);
    spec["containers"][0]["command"] = json!(["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]);
    lab.pod("deaf", spec).await;
    let pod = lab
        .until("deaf", "restarted", |pod| main_status(pod).is_some_and(|one| one.restart_count >= 1))
        .await;
    let last = main_status(&pod).unwrap().last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(last.exit_code, 137, "it did not listen");
}

#[tokio::test]
async fn startup_holds_the_others_back() {
    let lab = TestCluster::new().await;
    let mut spec = sleeper(
        "startupProbe",
        json!({"exec": {"command": ["sh", "-c", "test -e $HOME/up"]},
        "periodSeconds": 1, "failureThreshold": 100}),
    );
    spec["containers"][0]["livenessProbe"] = json!({"exec": {"command": ["sh", "-c", "test -e $HOME/up"]},
        "periodSeconds": 1, "failureThreshold": 1});
    let pod = lab.pod("slow", spec).await;
    lab.until_event("slow", "Unhealthy", "Startup probe failed").await;
    let seen = lab.get("slow").await.unwrap();
    assert_eq!(main_status(&seen).unwrap().started, Some(false));
    let file = lab.folder().join("pods").join(pod.metadata.uid.unwrap()).join("work/up");
    std::fs::write(file, "").unwrap();
    let pod = lab.until_ready("slow").await;
    assert_eq!(
        (main_status(&pod).unwrap().started, main_status(&pod).unwrap().restart_count),
        (Some(true), 0)
    );
}

#[tokio::test]
async fn ports_are_asked_by_http_and_tcp() {
    let lab = TestCluster::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // The test listens in place of the process; the probe sees no difference.
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").await;
        }
    });
    let named = json!([{"name": "web", "containerPort": port}]);
    let mut http = sleeper(
        "readinessProbe",
        json!({"httpGet": {"host": "127.0.0.1", "path": "/healthz", "port": "web"}, "periodSeconds": 1}),
    );
    http["containers"][0]["ports"] = named;
    lab.pod("http", http).await;
    lab.pod(
        "tcp",
        sleeper(
            "readinessProbe",
            json!({"tcpSocket": {"host": "127.0.0.1", "port": port}, "periodSeconds": 1}),
        ),
    )
    .await;
    lab.until_ready("http").await;
    lab.until_ready("tcp").await;
    server.abort();
    lab.until("tcp", "unready", |pod| condition(pod, "Ready") == "False").await;
    lab.until_event("http", "Unhealthy", "dial tcp 127.0.0.1:").await;
}

/// Over HTTPS any certificate is accepted, even a self-signed one.
#[tokio::test]
async fn an_encrypted_port_is_asked_without_checking_its_certificate() {
    let lab = TestCluster::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let own = rcgen::generate_simple_self_signed(vec!["elsewhere.test".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        }
    });
    let probe =
        json!({"httpGet": {"scheme": "HTTPS", "host": "127.0.0.1", "port": port}, "periodSeconds": 1});
    lab.pod("tls", sleeper("readinessProbe", probe)).await;
    lab.until_ready("tls").await;
    server.abort();
}

/// Two Pods listen on the same port, each at its own address, where probes and other clients reach them.
#[tokio::test]
async fn a_pod_is_asked_at_its_own_address() {
    if !homeostat::testing::has_tool("python3", "apt-get install python3") {
        return;
    }
    let lab = TestCluster::new().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let script = "import http.server, os; http.server.HTTPServer((os.environ['IP'], int(os.environ['PORT'])), \
        http.server.SimpleHTTPRequestHandler).serve_forever()";
    let container = json!({"name": "main", "image": "none", "command": ["python3", "-c", script],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "PORT", "value": free.to_string()}],
        "readinessProbe": {"httpGet": {"port": free}, "periodSeconds": 1}});
    let mut addresses = Vec::new();
    for name in ["one", "two"] {
        lab.pod(name, json!({"containers": [container]})).await;
        addresses.push(lab.until_ready(name).await.status.unwrap().pod_ip.unwrap());
    }
    assert_ne!(addresses[0], addresses[1]);
    for address in addresses {
        tokio::net::TcpStream::connect((address.as_str(), free)).await.unwrap();
    }
}
