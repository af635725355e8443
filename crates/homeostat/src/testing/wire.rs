//! Implements the path from a client to a test's API server: it injects faults and counts traffic.
//!
//! A remote server, in another process, responds in real time. Virtual time stands still while a request to it is in
//! progress ([`PausedTime`]), and times in its responses are translated (`remote_times`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use homeostat_runtime::{CancellationToken, PausedTime};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::faults::{Faults, InjectedFault};
use super::remote_times::RemoteTimes;
use super::request_info::is_watch;

/// How long after the watch a late response arrives.
const LATE: Duration = Duration::from_millis(100);

/// The activity on all wires of a cluster and in the journals of its operators.
#[derive(Default)]
pub(super) struct WireActivity {
    /// Everything that passed the wires or was recorded in the journals.
    traffic: AtomicU64,
    /// The part of it that is work: writes and operators' actions. Reads do not count.
    work: AtomicU64,
}

impl WireActivity {
    pub(super) fn add_traffic(&self) {
        self.traffic.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_work(&self) {
        self.add_traffic();
        self.work.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn traffic(&self) -> u64 {
        self.traffic.load(Ordering::Relaxed)
    }

    pub(super) fn work(&self) -> u64 {
        self.work.load(Ordering::Relaxed)
    }
}

/// The wire itself: the service inside a [`Client`].
#[derive(Clone)]
pub(super) struct Wire {
    server: Client,
    faults: Faults,
    /// Set if the server is a different process: its responses take real time, and it has a different clock.
    far: Option<RemoteTimes>,
    activity: Arc<WireActivity>,
    /// The number of watch chunks that have passed.
    watched: Arc<watch::Sender<u64>>,
}

type Chunks = Pin<Box<dyn futures::Stream<Item = std::io::Result<Frame<Bytes>>> + Send>>;
type WireBody = StreamBody<Chunks>;

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<WireBody>;
    type Error = std::io::Error;
    type Future = BoxFuture<'static, std::io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (fault, cut) = self.faults.decide(&request);
        let wire = self.clone();
        Box::pin(async move {
            match fault {
                Some(InjectedFault::Unreachable) => Err(std::io::Error::other("connection refused")),
                Some(InjectedFault::Refuse(code, message)) => Ok(refusal(code, message)),
                Some(InjectedFault::Answer(text)) => Ok(answer(200, text.to_owned())),
                Some(InjectedFault::Late) => wire.exchange_late(request, cut).await,
                Some(InjectedFault::Stall(code)) => Ok(stalled(code)),
                Some(InjectedFault::Hang) => std::future::pending().await,
                Some(InjectedFault::Lost) => {
                    drop(wire.exchange(request, cut).await);
                    std::future::pending().await
                }
                None => wire.exchange(request, cut).await,
            }
        })
    }
}

impl Wire {
    pub(super) fn new(
        server: Client,
        faults: Faults,
        far: Option<RemoteTimes>,
        activity: Arc<WireActivity>,
    ) -> Self {
        Self { server, faults, far, activity, watched: Arc::default() }
    }

    /// Responds a moment after a watch has shown the effect. Reads the whole response before that moment passes: time
    /// stands still while any of it is in transit.
    async fn exchange_late(
        &self,
        request: Request<Body>,
        cut: CancellationToken,
    ) -> std::io::Result<Response<WireBody>> {
        let mut watched = self.watched.subscribe();
        let (head, body) = self.exchange(request, cut).await?.into_parts();
        let text = BodyExt::collect(body).await?.to_bytes();
        if self.far.is_some() {
            let _held = PausedTime::new();
            watched.changed().await.map_err(std::io::Error::other)?;
        }
        tokio::time::sleep(LATE).await;
        Ok(Response::from_parts(head, whole(text)))
    }

    async fn exchange(
        &self,
        request: Request<Body>,
        cut: CancellationToken,
    ) -> std::io::Result<Response<WireBody>> {
        if request.method() == Method::GET {
            self.activity.add_traffic();
        } else {
            self.activity.add_work();
        }
        let held = self.far.is_some().then(PausedTime::new);
        let request = self.translated(request).await?;
        let is_watch = is_watch(&request);
        let is_list = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents=true"));
        let elsewhere = self.faults.elsewhere();
        let server = elsewhere.as_ref().unwrap_or(&self.server);
        let response = server.send(request).await.map_err(std::io::Error::other)?;
        self.activity.add_traffic();
        // A plain watch may be silent forever; every other response ends, and time waits for it.
        let held = if is_watch && !is_list { None } else { held };
        Ok(response.map(|body| self.clone().pass(body, cut, held, is_watch)))
    }

    /// Translates the times in a request for a server with a different clock.
    async fn translated(&self, request: Request<Body>) -> std::io::Result<Request<Body>> {
        let Some(times) = &self.far else { return Ok(request) };
        let (head, body) = request.into_parts();
        let text = body.collect_bytes().await.map_err(std::io::Error::other)?;
        Ok(Request::from_parts(head, Body::from(times.to_them(text).to_vec())))
    }

    /// Returns the chunks of a server's response. If its times must be translated, these are whole lines (watches) or
    /// the whole body (all others).
    fn pieces(&self, body: Body, is_watch: bool) -> BoxStream<'static, std::io::Result<Bytes>> {
        let chunks = body.into_data_stream().map(|chunk| chunk.map_err(std::io::Error::other));
        let Some(times) = self.far.clone() else { return chunks.boxed() };
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
        let translate = move |text: Bytes| -> Bytes {
            if !is_watch {
                return times.to_us(text);
            }
            let lines = text.split_inclusive(|byte| *byte == b'\n');
            lines.flat_map(|line| times.to_us(text.slice_ref(line))).collect()
        };
        pieces.map_ok(translate).boxed()
    }

    fn pass(
        self,
        body: Body,
        cut: CancellationToken,
        mut held: Option<PausedTime>,
        is_watch: bool,
    ) -> WireBody {
        let faults = self.faults.clone();
        let chunks = self.pieces(body, is_watch).map(move |chunk| {
            self.activity.add_traffic();
            if is_watch {
                self.watched.send_modify(|count| *count += 1);
            }
            let chunk = chunk?;
            if held.is_some() && memchr::memmem::find(&chunk, b"initial-events-end").is_some() {
                drop(held.take());
            }
            Ok(Frame::data(chunk))
        });
        let delayed = if is_watch { faults.watch_delay().map(|_| faults.clone()) } else { None };
        let is_heard = move || !is_watch || faults.are_watches_heard();
        let chunks = chunks.filter(move |_| std::future::ready(is_heard()));
        let chunks = Box::pin(chunks.take_until(cut.cancelled_owned()));
        StreamBody::new(match delayed {
            Some(faults) => delay(chunks, faults),
            None => chunks,
        })
    }
}

/// Delays each chunk by the watches' current lag, counted from its arrival and not from when the previous one was
/// taken.
fn delay(mut chunks: Chunks, faults: Faults) -> Chunks {
    // The channel is unbounded, because a lag must not hold up the server. The channel ends with the watch.
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(chunk) = chunks.next().await {
            let at = Instant::now() + faults.watch_delay().unwrap_or_default();
            if sender.send((at, chunk)).is_err() {
                return;
            }
        }
    });
    Box::pin(futures::stream::unfold(receiver, |mut receiver| async {
        let (at, chunk) = receiver.recv().await?;
        tokio::time::sleep_until(at).await;
        Some((chunk, receiver))
    }))
}

/// Returns a refusal with kube-apiserver's wording.
fn refusal(code: u16, message: &str) -> Response<WireBody> {
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "message": message, "reason": reason, "code": code});
    answer(code, status.to_string())
}

fn stalled(code: u16) -> Response<WireBody> {
    respond(code, StreamBody::new(Box::pin(futures::stream::pending()) as Chunks))
}

fn answer(code: u16, text: String) -> Response<WireBody> {
    respond(code, whole(text.into()))
}

fn respond(code: u16, body: WireBody) -> Response<WireBody> {
    let response = Response::builder().status(code).body(body);
    response.unwrap_or_else(|error| panic!("an injected fault has the status code {code}: {error}"))
}

fn whole(text: Bytes) -> WireBody {
    StreamBody::new(Box::pin(futures::stream::iter([Ok(Frame::data(text))])))
}
