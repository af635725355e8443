//! Provides a webhook over TLS on a free port, which responds as a test requires.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// How a webhook behaves.
pub(crate) enum Behaviour {
    /// Responds with this, adding the uid of the request.
    Respond(Value),
    /// Responds with this document.
    Document(Value),
    /// Responds with these bytes, which it claims to be compressed.
    Compressed(Vec<u8>),
    /// Responds with this code and text.
    Text(u16, &'static str),
    /// Redirects to itself.
    Redirect,
    /// Never responds.
    Hang,
    /// Sends a body that never ends.
    Endless,
}

type Decide = dyn Fn(&Value) -> Behaviour + Send + Sync;

/// A running webhook.
pub(crate) struct WebhookServer {
    pub(crate) address: SocketAddr,
    /// The certificate, which is its own authority, in the form of `caBundle`.
    pub(crate) bundle: String,
    questions: Arc<Mutex<Vec<(String, Value)>>>,
    _task: AbortOnDropHandle<()>,
}

impl WebhookServer {
    pub(crate) async fn start(decide: impl Fn(&Value) -> Behaviour + Send + Sync + 'static) -> Self {
        let names = ["127.0.0.1", "localhost", "hook.default.svc"].map(ToOwned::to_owned);
        let signed = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config =
            config.with_no_client_auth().with_single_cert(vec![signed.cert.der().clone()], key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let questions = Arc::new(Mutex::new(Vec::new()));
        let decide: Arc<Decide> = Arc::new(decide);
        let task = tokio::spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            decide,
            Arc::clone(&questions),
        ));
        let bundle = STANDARD.encode(signed.cert.pem());
        Self { address, bundle, questions, _task: AbortOnDropHandle::new(task) }
    }

    /// Returns the paths and bodies of all requests so far.
    pub(crate) fn questions(&self) -> Vec<(String, Value)> {
        self.questions.lock().unwrap().clone()
    }

    /// Returns a configuration with one webhook for ConfigMaps, with additional fields.
    pub(crate) fn configuration(&self, name: &str, more: &Value) -> Value {
        let mut webhook = json!({"name": format!("{name}.demo.dev"), "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://{}/check", self.address), "caBundle": self.bundle},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
        for (field, value) in more.as_object().unwrap() {
            webhook[field] = value.clone();
        }
        json!({"metadata": {"name": name}, "webhooks": [webhook]})
    }
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    decide: Arc<Decide>,
    questions: Arc<Mutex<Vec<(String, Value)>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, decide, questions) = (acceptor.clone(), Arc::clone(&decide), Arc::clone(&questions));
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service =
                service_fn(move |request| answer(request, Arc::clone(&decide), Arc::clone(&questions)));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    decide: Arc<Decide>,
    questions: Arc<Mutex<Vec<(String, Value)>>>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let path = request.uri().to_string();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let question: Value = serde_json::from_slice(&body).unwrap();
    questions.lock().unwrap().push((path, question.clone()));
    let whole = |code: u16, text: String| {
        Response::builder().status(code).body(Full::new(Bytes::from(text)).boxed()).unwrap()
    };
    Ok(match decide(&question) {
        Behaviour::Respond(mut response) => {
            response["uid"] = question["request"]["uid"].clone();
            let review = json!({"apiVersion": question["apiVersion"], "kind": "AdmissionReview", "response": response});
            whole(200, review.to_string())
        }
        Behaviour::Document(document) => whole(200, document.to_string()),
        Behaviour::Compressed(bytes) => {
            let body = Full::new(Bytes::from(bytes)).boxed();
            Response::builder().header("content-encoding", "gzip").body(body).unwrap()
        }
        Behaviour::Text(code, text) => whole(code, text.to_owned()),
        Behaviour::Redirect => {
            let mut response = whole(302, String::new());
            response.headers_mut().insert("location", "/other".parse().unwrap());
            response
        }
        Behaviour::Hang => std::future::pending().await,
        Behaviour::Endless => {
            let piece = || Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 64 * 1024])));
            let pieces = futures::stream::repeat_with(piece).boxed();
            Response::new(BodyExt::boxed(StreamBody::new(SyncStream(Mutex::new(pieces)))))
        }
    })
}

/// A stream that can be shared, as bodies must be.
struct SyncStream(Mutex<futures::stream::BoxStream<'static, Result<Frame<Bytes>, Infallible>>>);

impl futures::Stream for SyncStream {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.lock().unwrap().poll_next_unpin(cx)
    }
}
