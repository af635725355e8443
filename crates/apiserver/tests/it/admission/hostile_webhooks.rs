//! Tests webhooks that break the rules of HTTP: they affect only the request that they are called for.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{message, start_without};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// How a connection behaves after the request.
#[derive(Clone, Copy, Debug)]
enum Misbehaviour {
    /// Sends endless headers.
    EndlessHeaders,
    /// Sends one header of two megabytes.
    HugeHeader,
    /// Announces more than it sends, and closes its side.
    HalfClosed,
    /// Closes the connection instead of responding.
    Closed,
    /// Sends the announced body a byte at a time, too slowly.
    Trickling,
    /// Sends something that is not HTTP.
    NotHttp,
}

async fn misbehave(stream: &mut (impl AsyncWrite + Unpin), how: Misbehaviour) -> std::io::Result<()> {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
    match how {
        Misbehaviour::EndlessHeaders => {
            stream.write_all(OK).await?;
            for at in 0.. {
                stream.write_all(format!("x-{at}: {}\r\n", "a".repeat(1000)).as_bytes()).await?;
            }
        }
        Misbehaviour::HugeHeader => {
            stream.write_all(OK).await?;
            stream.write_all(format!("x-huge: {}\r\n\r\n", "a".repeat(2 << 20)).as_bytes()).await?;
        }
        Misbehaviour::HalfClosed => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"kind\"").await?;
            stream.shutdown().await?;
            std::future::pending::<()>().await;
        }
        Misbehaviour::Closed => {}
        Misbehaviour::Trickling => {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await?;
            loop {
                stream.write_all(b" ").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Misbehaviour::NotHttp => stream.write_all(&[0xff; 4096]).await?,
    }
    stream.flush().await
}

/// Starts such a webhook; returns its address, its certificate and its task.
async fn start(how: Misbehaviour) -> (String, String, AbortOnDropHandle<()>) {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![signed.cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                // The beginning of the request is enough.
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = misbehave(&mut stream, how).await;
            });
        }
    });
    (address, STANDARD.encode(signed.cert.pem()), AbortOnDropHandle::new(task))
}

#[tokio::test]
async fn answers_that_are_no_http_fail_the_request_they_are_about() {
    for how in [
        Misbehaviour::EndlessHeaders,
        Misbehaviour::HugeHeader,
        Misbehaviour::HalfClosed,
        Misbehaviour::Closed,
        Misbehaviour::Trickling,
        Misbehaviour::NotHttp,
    ] {
        let (address, bundle, _task) = start(how).await;
        let plane = start_without(&["ServiceAccount"]).await;
        let hook = json!({"metadata": {"name": "h"}, "webhooks": [{"name": "hook.demo.dev", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
            "clientConfig": {"url": format!("https://{address}/"), "caBundle": bundle},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}]});
        plane.post(HOOKS, hook).await.expect(201);
        let (asked, other) = tokio::join!(
            plane.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})),
            plane.post("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "s"}})),
        );
        other.expect(201);
        let refused = message(asked, 500);
        let intro =
            "Internal error occurred: failed calling webhook \"hook.demo.dev\": failed to call webhook: ";
        assert!(refused.starts_with(intro), "{how:?}: {refused}");
        let patch = json!({"webhooks": [{"name": "hook.demo.dev", "failurePolicy": "Ignore"}]});
        plane.patch(&format!("{HOOKS}/h"), crate::test_server::STRATEGIC, patch).await.expect(200);
        plane.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await.expect(201);
    }
}
