//! Routes HTTP requests, and applies the switches that break them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::broadcast;

use super::cloud_state::CloudState;
use crate::api::{CloudShape, Event};

/// The largest body; a shape with its labels is far smaller.
const BODY_BYTES_MAX: usize = 64 * 1024;

const PAGE: &str = include_str!("page.html");

type Body = BoxBody<Bytes, Infallible>;

pub(super) async fn answer(
    cloud: Arc<CloudState>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let path = percent_decode_str(request.uri().path()).decode_utf8_lossy().into_owned();
    let is_broken = path.starts_with("/shapes") && by(&request) != "page";
    if is_broken {
        let faults = cloud.faults();
        tokio::time::sleep(Duration::from_millis(faults.latency_ms)).await;
        if faults.errors {
            return Ok(text(StatusCode::INTERNAL_SERVER_ERROR, "out of order"));
        }
    }
    Ok(route(&cloud, &path, request).await.unwrap_or_else(|refusal| refusal))
}

async fn route(
    cloud: &CloudState,
    path: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Response<Body>> {
    let (method, by) = (request.method().clone(), by(&request));
    let name = path.strip_prefix("/shapes/");
    Ok(match (method, path, name) {
        (Method::GET, "/", _) => typed("text/html; charset=utf-8", PAGE),
        (Method::GET, "/shapes", _) => json(&cloud.list(from(&request).as_deref())),
        (Method::POST, "/shapes", _) => {
            let is_new = cloud.create(body::<CloudShape>(request).await?, by);
            outcome(is_new, StatusCode::CREATED, StatusCode::CONFLICT, "the name is taken")
        }
        (Method::GET, _, Some(name)) => match cloud.get(name) {
            Some(shape) => json(&shape),
            None => text(StatusCode::NOT_FOUND, "no such shape"),
        },
        (Method::PUT, _, Some(name)) => {
            let shape = CloudShape { name: name.to_owned(), ..body(request).await? };
            outcome(cloud.update(shape, by), StatusCode::OK, StatusCode::NOT_FOUND, "no such shape")
        }
        (Method::DELETE, _, Some(name)) => {
            outcome(cloud.delete(name, by), StatusCode::OK, StatusCode::NOT_FOUND, "no such shape")
        }
        (Method::GET, "/watch", _) => watch(cloud),
        (Method::GET, "/faults", _) => json(&cloud.faults()),
        (Method::PUT, "/faults", _) => {
            cloud.set_faults(body(request).await?);
            json(&cloud.faults())
        }
        _ => text(StatusCode::NOT_FOUND, "try / /shapes /watch /faults"),
    })
}

fn by(request: &Request<Incoming>) -> String {
    let header = request.headers().get("x-by").and_then(|value| value.to_str().ok());
    header.unwrap_or("somebody").to_owned()
}

fn from(request: &Request<Incoming>) -> Option<String> {
    let text = request.uri().query()?.strip_prefix("from=")?;
    Some(percent_decode_str(text).decode_utf8_lossy().into_owned())
}

async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Response<Body>> {
    let bad = |error: &dyn std::fmt::Display| text(StatusCode::BAD_REQUEST, &error.to_string());
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await;
    let body = body.map_err(|error| bad(&error))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| bad(&error))
}

/// Streams changes from now on as server-sent events; ends if the listener falls too far behind.
fn watch(cloud: &CloudState) -> Response<Body> {
    let body = StreamBody::new(heard(cloud.listen()).map(|event| {
        let json = serde_json::to_string(&event).unwrap_or_default();
        Ok(Frame::data(Bytes::from(format!("data: {json}\n\n"))))
    }));
    let greeting = stream::once(async { Ok(Frame::data(Bytes::from_static(b": listening\n\n"))) });
    let body = StreamBody::new(greeting.chain(body));
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream");
    response.body(BodyExt::boxed(body)).expect("a constant header is valid")
}

fn heard(receiver: broadcast::Receiver<Event>) -> impl Stream<Item = Event> + Send + Sync {
    stream::unfold(receiver, |mut receiver| async {
        let event = receiver.recv().await.ok()?;
        Some((event, receiver))
    })
}

fn outcome(is_done: bool, done: StatusCode, refused: StatusCode, why: &str) -> Response<Body> {
    if is_done { text(done, "done") } else { text(refused, why) }
}

fn json(value: &impl Serialize) -> Response<Body> {
    typed("application/json", serde_json::to_string(value).unwrap_or_default())
}

fn text(code: StatusCode, words: &str) -> Response<Body> {
    let mut response = typed("text/plain; charset=utf-8", format!("{words}\n"));
    *response.status_mut() = code;
    response
}

fn typed(content_type: &'static str, content: impl Into<Bytes>) -> Response<Body> {
    let response = Response::builder().header(header::CONTENT_TYPE, content_type);
    response.body(BodyExt::boxed(Full::new(content.into()))).expect("a constant header is valid")
}
