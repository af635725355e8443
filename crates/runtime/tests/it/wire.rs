//! The way from an operator to its server: it breaks on demand, also over TLS, and virtual time stands still while
//! something is under way on it.
//!
//! Time stands still because tokio does not advance a paused clock while a blocking task runs; each exchange with a
//! server in another process holds one. Times in what it says are ours (`times`).

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use homeostat_runtime::CancellationToken;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;

use crate::reference::Notes;
use crate::times::Times;

/// How much later than the watch a late answer is.
const LATE: std::time::Duration = std::time::Duration::from_millis(100);

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
    /// Not served; answered with this status code, and the rest of the answer never comes.
    Stall(u16),
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
    /// The server is another process: its answers take real time, and its clock is another.
    pub(crate) times: Option<Times>,
    /// The server outlives the test, which must be able to clean up.
    pub(crate) notes: Option<Notes>,
    /// Requests and chunks that passed.
    pub(crate) traffic: Arc<AtomicU64>,
    /// Chunks of watches that passed.
    pub(crate) watched: Arc<watch::Sender<u64>>,
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
                Some(Breakage::Late) => wire.exchange_late(request, cut).await,
                Some(Breakage::Stall(code)) => Ok(stalled(code)),
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
    /// Answers a moment after a watch has shown what was done. The answer is read whole before that moment passes:
    /// time stands still for as long as any of it is on its way.
    async fn exchange_late(
        &self,
        request: Request<Body>,
        cut: CancellationToken,
    ) -> std::io::Result<Response<WireBody>> {
        let mut watched = self.watched.subscribe();
        let (head, body) = self.exchange(request, cut).await?.into_parts();
        let text = BodyExt::collect(body).await?.to_bytes();
        if self.times.is_some() {
            let _hold = Hold::new();
            watched.changed().await.expect("the wire has the sender");
        }
        tokio::time::sleep(LATE).await;
        Ok(Response::from_parts(head, whole(text)))
    }

    async fn exchange(
        &self,
        request: Request<Body>,
        cut: CancellationToken,
    ) -> std::io::Result<Response<WireBody>> {
        self.count();
        if let Some(notes) = &self.notes {
            notes.note(&request);
        }
        let hold = self.times.is_some().then(Hold::new);
        let request = self.translated(request).await;
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

    /// What goes to a server with another clock.
    async fn translated(&self, request: Request<Body>) -> Request<Body> {
        let Some(times) = &self.times else { return request };
        let (head, body) = request.into_parts();
        let text = body.collect_bytes().await.expect("a request of ours is whole");
        Request::from_parts(head, Body::from(times.to_them(text).to_vec()))
    }

    /// What comes from a server, in whole lines (watches) or whole (all others) if its times must be translated.
    fn pieces(&self, body: Body, is_watch: bool) -> BoxStream<'static, std::io::Result<bytes::Bytes>> {
        let chunks = body.into_data_stream().map(|chunk| chunk.map_err(std::io::Error::other));
        let Some(times) = self.times.clone() else { return chunks.boxed() };
        let rest = (chunks.boxed(), bytes::BytesMut::new());
        let pieces = futures::stream::try_unfold(rest, move |(mut chunks, mut kept)| async move {
            loop {
                let end = kept.iter().rposition(|byte| *byte == b'\n').filter(|_| is_watch);
                if let Some(end) = end {
                    let lines = kept.split_to(end + 1).freeze();
                    return Ok(Some((lines, (chunks, kept))));
                }
                match chunks.try_next().await? {
                    Some(chunk) => kept.extend_from_slice(&chunk),
                    None if kept.is_empty() => return Ok(None),
                    None => return Ok(Some((kept.split().freeze(), (chunks, kept)))),
                }
            }
        });
        let translate = move |text: bytes::Bytes| -> bytes::Bytes {
            if !is_watch {
                return times.to_us(text);
            }
            let lines = text.split_inclusive(|byte| *byte == b'\n');
            lines.flat_map(|line| times.to_us(text.slice_ref(line))).collect()
        };
        pieces.map_ok(translate).boxed()
    }

    fn pass(self, body: Body, cut: CancellationToken, mut hold: Option<Hold>, is_watch: bool) -> WireBody {
        let faults = self.faults.clone();
        let chunks = self.pieces(body, is_watch).map(move |chunk| {
            self.count();
            if is_watch {
                self.watched.send_modify(|count| *count += 1);
            }
            let chunk = chunk?;
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

fn stalled(code: u16) -> Response<WireBody> {
    let body = StreamBody::new(Box::pin(futures::stream::pending()) as Chunks);
    Response::builder().status(code).body(body).expect("a valid response")
}

fn answer(code: u16, text: String) -> Response<WireBody> {
    Response::builder().status(code).body(whole(text.into())).expect("a valid response")
}

fn whole(text: bytes::Bytes) -> WireBody {
    StreamBody::new(Box::pin(futures::stream::iter([Ok(Frame::data(text))])))
}
