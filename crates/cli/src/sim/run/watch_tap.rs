//! A watch by the operator, event by event: gives each event about an object its address, and delays, ends or expires
//! the watch if a fault has that address.
//!
//! Only watches in JSON, the server's default, are parsed; others pass unchanged.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use homeostat_apiserver::body::Body;
use homeostat_core::RequestTarget;
use http::{Response, header};
use http_body_util::BodyExt as _;
use serde::Deserialize;

use super::fault::Fault;
use super::wire::WireLog;

const EXPIRED: &[u8] = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: simulated fault","reason":"Expired","code":410}}
"#;

#[derive(Deserialize)]
struct WatchEvent {
    #[serde(rename = "type")]
    event_type: String,
    object: EventObject,
}

#[derive(Deserialize)]
struct EventObject {
    #[serde(default)]
    metadata: EventMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct EventMetadata {
    namespace: String,
    name: String,
    generate_name: String,
}

/// A watch that is being followed.
struct WatchTap {
    pieces: BoxStream<'static, Bytes>,
    /// Data that has arrived but has not been sent yet.
    buffer: BytesMut,
    target: RequestTarget,
    open: OpenWatch,
    has_ended: bool,
}

/// Counts as an open watch until dropped.
struct OpenWatch(Arc<WireLog>);

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.0.count_watch(false);
    }
}

/// Passes on the events of a watch one by one.
pub(super) fn follow(response: Response<Body>, target: RequestTarget, wire: &Arc<WireLog>) -> Response<Body> {
    let media = response.headers().get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok());
    let is_json = media.is_some_and(|media| media.starts_with("application/json"));
    wire.count_watch(true);
    let open = OpenWatch(Arc::clone(wire));
    let (parts, body) = response.into_parts();
    let pieces = body.into_data_stream().filter_map(|piece| async { piece.ok() }).boxed();
    if !is_json {
        let counted = pieces.map(move |piece| {
            let _open = &open;
            piece
        });
        return Response::from_parts(parts, Body::stream(counted));
    }
    let tap = WatchTap { pieces, buffer: BytesMut::new(), target, open, has_ended: false };
    let lines =
        futures::stream::unfold(tap, |mut tap| async move { tap.next().await.map(|line| (line, tap)) });
    Response::from_parts(parts, Body::stream(lines))
}

impl WatchTap {
    /// Returns the next event to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        let line = self.next_line().await?;
        match self.object_of(&line).and_then(|object| self.open.0.begin_event(&object)) {
            Some(Fault::CutWatch) => None,
            Some(Fault::ExpireWatch) => {
                self.has_ended = true;
                Some(Bytes::from_static(EXPIRED))
            }
            Some(fault @ Fault::DelayWatch { .. }) => {
                tokio::time::sleep(fault.duration()).await;
                Some(line)
            }
            _ => Some(line),
        }
    }

    async fn next_line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Some(self.buffer.split_to(end + 1).freeze());
            }
            self.buffer.extend_from_slice(&self.pieces.next().await?);
        }
    }

    /// Returns the name of an event's object for messages; `None` for bookmarks and errors.
    fn object_of(&self, line: &[u8]) -> Option<String> {
        let event: WatchEvent = serde_json::from_slice(line).ok()?;
        if !matches!(&*event.event_type, "ADDED" | "MODIFIED" | "DELETED") {
            return None;
        }
        let EventMetadata { namespace, name, generate_name } = event.object.metadata;
        let is_generated = !generate_name.is_empty() && name.starts_with(&generate_name);
        let name = if is_generated { format!("{generate_name}*") } else { name };
        Some(RequestTarget { namespace, name, ..self.target.clone() }.object())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Method;
    use tokio::time::Instant;

    use super::super::fault::FaultAtAddress;
    use super::super::request_address::request_target;
    use super::*;

    const FIRST: &str =
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"namespace\":\"a\",\"name\":\"x\"}}}\n";
    const SECOND: &str =
        "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"namespace\":\"a\",\"name\":\"x\"}}}\n";

    /// Sends two events in pieces that do not end at event boundaries, with a fault at the second one.
    #[track_caller]
    fn check(fault: Option<Fault>, expected: &str, expected_delay: Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let at = "event configmaps a/x #2".to_owned();
            let faults: Vec<FaultAtAddress> =
                fault.map(|fault| FaultAtAddress { at, fault }).into_iter().collect();
            let wire = Arc::new(WireLog::new(&faults));
            let text = format!("{FIRST}{SECOND}");
            let (start, end) = text.split_at(FIRST.len() + 9);
            let pieces = [start, end].map(|piece| Bytes::from(piece.to_owned()));
            let mut response = Response::new(Body::stream(futures::stream::iter(pieces)));
            let media = header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, media);
            let target = request_target(&Method::GET, "/api/v1/configmaps", "watch=true", b"");
            let response = follow(response, target, &wire);
            assert_eq!(wire.state().open_watches, 1);
            let begun = Instant::now();
            let sent = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&sent), expected);
            assert!(
                begun.elapsed() >= expected_delay
                    && begun.elapsed() < expected_delay * 2 + Duration::from_millis(1)
            );
            assert_eq!(wire.state().open_watches, 0);
            assert_eq!(wire.state().events, ["event configmaps a/x #1", "event configmaps a/x #2"]);
        });
    }

    #[test]
    fn a_watch_is_late_or_ends_where_a_fault_says() {
        let (now, late) = (Duration::ZERO, Duration::from_millis(700));
        let all = format!("{FIRST}{SECOND}");
        check(None, &all, now);
        check(Some(Fault::DelayWatch { milliseconds: 700 }), &all, late);
        check(Some(Fault::CutWatch), FIRST, now);
        let expired = format!("{FIRST}{}", String::from_utf8_lossy(EXPIRED));
        check(Some(Fault::ExpireWatch), &expired, now);
    }
}
