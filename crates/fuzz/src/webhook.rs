//! A webhook over TLS on loopback, which gives the answer that was set last.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// The answer that every question gets; see [`reply`].
type SharedReply = Arc<Mutex<Value>>;

/// A running webhook. It stops when the runtime does.
pub(crate) struct FuzzWebhook {
    address: SocketAddr,
    /// Its self-signed certificate, in the form of `caBundle`.
    bundle: String,
    reply: SharedReply,
}

impl FuzzWebhook {
    /// Starts on a free port. Must be called within a runtime.
    pub(crate) async fn start() -> std::io::Result<Self> {
        let signed =
            rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).map_err(std::io::Error::other)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config.with_no_client_auth().with_single_cert(vec![signed.cert.der().clone()], key)
            })
            .map_err(std::io::Error::other)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let reply = SharedReply::default();
        tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&reply)));
        Ok(Self { address, bundle: STANDARD.encode(signed.cert.pem()), reply })
    }

    /// Sets the answer to all further questions.
    pub(crate) fn set_reply(&self, reply: Value) {
        *self.reply.lock().unwrap_or_else(PoisonError::into_inner) = reply;
    }

    /// Returns the configuration of a webhook for these resources.
    pub(crate) fn configuration(&self, name: &str, resources: &[&str]) -> Value {
        json!({"metadata": {"name": name}, "webhooks": [{"name": format!("{name}.demo.dev"), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "reinvocationPolicy": "Never", "timeoutSeconds": 10,
            "clientConfig": {"url": format!("https://{}/check", self.address), "caBundle": self.bundle},
            "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}]}]})
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, reply: SharedReply) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve_connection(stream, acceptor.clone(), Arc::clone(&reply)));
    }
}

async fn serve_connection(stream: TcpStream, acceptor: TlsAcceptor, reply: SharedReply) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| answer(request, Arc::clone(&reply)));
    // A disconnected client is not an error.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    shared: SharedReply,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let question: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (code, text) = reply(&shared.lock().unwrap_or_else(PoisonError::into_inner), &question);
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    Ok(response)
}

/// Makes the answer: `{"code", "raw": text}`, `{"document": any}`, or `{"response": fields, "patch": operations}`.
fn reply(told: &Value, question: &Value) -> (http::StatusCode, String) {
    let code = told["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    // Codes below 200 are interim responses, which cannot be sent as the answer.
    let code = code.filter(|code| *code >= 200).and_then(|code| http::StatusCode::from_u16(code).ok());
    let code = code.unwrap_or_default();
    if let Some(text) = told["raw"].as_str() {
        return (code, text.to_owned());
    }
    if !told["document"].is_null() {
        return (code, told["document"].to_string());
    }
    let mut response = told["response"].clone();
    if let Some(fields) = response.as_object_mut() {
        fields.entry("uid").or_insert_with(|| question["request"]["uid"].clone());
        if told["patch"].is_array() {
            fields.entry("patchType").or_insert_with(|| "JSONPatch".into());
            fields.entry("patch").or_insert_with(|| STANDARD.encode(told["patch"].to_string()).into());
        }
    }
    let review =
        json!({"apiVersion": question["apiVersion"], "kind": "AdmissionReview", "response": response});
    (code, review.to_string())
}
