//! The way from an operator to its server: it breaks on demand, also over TLS, and virtual time stands still while
//! something is under way on it.
//!
//! Time stands still because tokio does not advance a paused clock while a blocking task runs; each exchange with a
//! server in another process holds one.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::StreamExt;
use homeostat_runtime::CancellationToken;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::json;

/// What a broken client answers instead of asking the server.
#[derive(Clone)]
pub(crate) enum Breakage {
    /// This status code and message.
    Refuse(u16, &'static str),
    /// No answer: the connection fails.
    Unreachable,
    /// Not served; this is the answer.
    Answer(&'static str),
    /// Served, and answered a little later: the watch is faster.
    Late,
    /// Never served and never answered.
    Hang,
    /// Served, and never answered.
    Lost,
}

type Rule = Box<dyn Fn(&Request<Body>) -> Option<Breakage> + Send>;

/// Faults between the operator and the server.
#[derive(Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<FaultState>>);

#[derive(Default)]
struct FaultState {
    rule: Option<Rule>,
    cut: CancellationToken,
    is_mute: bool,
    elsewhere: Option<Client>,
}

impl Faults {
    /// From now on requests that the rule names break.
    pub(crate) fn set(&self, rule: impl Fn(&Request<Body>) -> Option<Breakage> + Send + 'static) {
        self.0.lock().unwrap().rule = Some(Box::new(rule));
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap().rule = None;
    }

    /// Watches stay open and say nothing: what happens from now on is lost without a trace.
    pub(crate) fn mute(&self) {
        self.0.lock().unwrap().is_mute = true;
    }

    /// Watches speak again; what happened meanwhile stays lost to them.
    pub(crate) fn unmute(&self) {
        self.0.lock().unwrap().is_mute = false;
    }

    /// Another server stands at the same address from now on.
    pub(crate) fn replace_server(&self, server: &Client) {
        self.0.lock().unwrap().elsewhere = Some(server.clone());
    }

    /// Ends every open answer: the watches break off.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut self.0.lock().unwrap().cut).cancel();
    }
}

/// Virtual time does not move while this exists.
pub(crate) struct Hold(
    #[expect(dead_code, reason = "its end is what the blocking task waits for")] std::sync::mpsc::Sender<()>,
);

impl Hold {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || {
            let _ = receiver.recv();
        });
        Self(sender)
    }
}

/// The way itself.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) server: Client,
    pub(crate) faults: Faults,
    /// The server is another process: its answers take real time.
    pub(crate) is_remote: bool,
    /// Requests and chunks that passed.
    pub(crate) traffic: Arc<AtomicU64>,
}

type Chunks = Pin<Box<dyn futures::Stream<Item = std::io::Result<Frame<bytes::Bytes>>> + Send>>;
type WireBody = StreamBody<Chunks>;

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<WireBody>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (breakage, cut) = {
            let state = self.faults.0.lock().unwrap();
            (state.rule.as_ref().and_then(|rule| rule(&request)), state.cut.clone())
        };
        let wire = self.clone();
        Box::pin(async move {
            match breakage {
                Some(Breakage::Unreachable) => Err(std::io::Error::other("connection refused")),
                Some(Breakage::Refuse(code, message)) => Ok(refusal(code, message)),
                Some(Breakage::Answer(text)) => Ok(answer(200, text.to_owned())),
                Some(Breakage::Late) => {
                    let answer = wire.exchange(request, cut).await;
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    answer
                }
                Some(Breakage::Hang) => std::future::pending().await,
                Some(Breakage::Lost) => {
                    drop(wire.exchange(request, cut).await);
                    std::future::pending().await
                }
                None => wire.exchange(request, cut).await,
            }
        })
    }
}

impl Wire {
    async fn exchange(
        &self,
        request: Request<Body>,
        cut: CancellationToken,
    ) -> std::io::Result<Response<WireBody>> {
        self.count();
        let hold = self.is_remote.then(Hold::new);
        let query = request.uri().query().unwrap_or_default();
        let (is_watch, is_list) = (query.contains("watch=true"), query.contains("sendInitialEvents=true"));
        let elsewhere = self.faults.0.lock().unwrap().elsewhere.clone();
        let server = elsewhere.as_ref().unwrap_or(&self.server);
        let response = server.send(request).await.map_err(std::io::Error::other)?;
        self.count();
        // A plain watch may be silent for ever; everything else ends, and time waits for it.
        let hold = if is_watch && !is_list { None } else { hold };
        Ok(response.map(|body| self.clone().pass(body, cut, hold, is_watch)))
    }

    fn pass(self, body: Body, cut: CancellationToken, mut hold: Option<Hold>, is_watch: bool) -> WireBody {
        let faults = self.faults.clone();
        let chunks = body.into_data_stream().map(move |chunk| {
            self.count();
            let chunk = chunk.map_err(std::io::Error::other)?;
            if memchr::memmem::find(&chunk, b"initial-events-end").is_some() {
                drop(hold.take());
            }
            Ok(Frame::data(chunk))
        });
        let is_heard = move || !is_watch || !faults.0.lock().unwrap().is_mute;
        let chunks = chunks.filter(move |_| std::future::ready(is_heard()));
        StreamBody::new(Box::pin(chunks.take_until(cut.cancelled_owned())))
    }

    fn count(&self) {
        self.traffic.fetch_add(1, Ordering::Relaxed);
    }
}

fn refusal(code: u16, message: &str) -> Response<WireBody> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
                        "reason": "Testing", "code": code});
    answer(code, status.to_string())
}

fn answer(code: u16, text: String) -> Response<WireBody> {
    let chunk = Ok(Frame::data(text.into()));
    let body = StreamBody::new(Box::pin(futures::stream::iter([chunk])) as Chunks);
    Response::builder().status(code).body(body).expect("a valid response")
}
