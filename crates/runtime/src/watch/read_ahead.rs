//! Reads the lines of a watch, and decodes a list ahead of the cache.
//!
//! A streaming list is the only time when a lot must be decoded at once. At that time one task reads, others decode,
//! and the watch's own task fills the cache, so that all cores share the work while the order is preserved. Single
//! events take no such detour.
//!
//! **Invariant:** at most [`AHEAD_BATCHES`] batches wait, whatever the server sends.

use std::panic::resume_unwind;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::decode_watch::{self, WatchLine};
use super::line_splitter::LineSplitter;
use super::watch_machine::WatchSignal;
use crate::kind::KindInfo;

/// The beginning of an object's line.
const ADDED: &[u8] = br#"{"type":"ADDED""#;

/// The maximum number of bytes buffered for a line: ten times the largest object a server accepts.
const LINE_BYTES_MAX: usize = 32 << 20;

/// The number of objects decoded at once: enough that the cost of waking another core is comparatively small.
const BATCH_LINES: usize = 64;

/// The number of batches that wait to be decoded or taken: enough that a brief delay on one core does not make another
/// wait.
const AHEAD_BATCHES: usize = 6;

/// A healthy server does not pause this long between two objects of a streaming list.
const STREAM_STALL_MAX: Duration = Duration::from_secs(20);

/// A watch's body, line by line.
pub(crate) struct WatchBody {
    body: Body,
    lines: LineSplitter,
}

impl WatchBody {
    pub(crate) fn new(body: Body) -> Self {
        Self { body, lines: LineSplitter::default() }
    }

    /// Returns the next line, or how the watch ended. Dropping the future loses nothing.
    pub(crate) async fn line(&mut self, patience: Duration) -> Result<Bytes, WatchSignal> {
        loop {
            if let Some(text) = self.lines.next() {
                return Ok(text);
            }
            if self.lines.pending_bytes() > LINE_BYTES_MAX {
                return Err(broken("the server sent a line that is too long".to_owned()));
            }
            match timeout(patience, self.body.frame()).await {
                Err(_) => return Err(WatchSignal::Silent),
                Ok(None) => return Err(WatchSignal::Ended),
                Ok(Some(Err(error))) => return Err(broken(format!("the watch broke off: {error}"))),
                Ok(Some(Ok(frame))) => self.lines.feed(frame.into_data().unwrap_or_default()),
            }
        }
    }
}

/// Lines that any core decodes; awaiting them returns them in order.
type LineBatch = AbortOnDropHandle<Vec<WatchLine>>;

/// A list in progress.
pub(crate) struct ListInProgress {
    batches: mpsc::Receiver<LineBatch>,
    reader: AbortOnDropHandle<Result<WatchBody, WatchSignal>>,
}

impl ListInProgress {
    pub(crate) fn read(info: &'static KindInfo, reading: WatchBody) -> Self {
        let (sender, batches) = mpsc::channel(AHEAD_BATCHES);
        let reader = tokio::spawn(hand_out(info, reading, sender).in_current_span());
        Self { batches, reader: AbortOnDropHandle::new(reader) }
    }

    /// Returns the next lines; `None` if the list is complete or was interrupted.
    pub(crate) async fn next(&mut self) -> Option<Vec<WatchLine>> {
        finished(self.batches.recv().await?.await)
    }

    /// Returns the rest of the watch after the last lines, or how the list was interrupted.
    pub(crate) async fn end(self) -> Result<WatchBody, WatchSignal> {
        finished(self.reader.await).unwrap_or(Err(WatchSignal::Ended))
    }
}

/// Returns the result of a task; `None` if the whole runtime is shutting down. A panic in the user's type in the
/// decoding task is resumed here.
fn finished<T>(outcome: Result<T, JoinError>) -> Option<T> {
    outcome.map_err(|error| error.try_into_panic().map(resume_unwind)).ok()
}

/// Reads to the end of the list and hands out the lines to decode.
async fn hand_out(
    info: &'static KindInfo,
    mut reading: WatchBody,
    batches: mpsc::Sender<LineBatch>,
) -> Result<WatchBody, WatchSignal> {
    loop {
        let mut texts = Vec::with_capacity(BATCH_LINES);
        let mut ended = Ok(false);
        while texts.len() < BATCH_LINES && ended == Ok(false) {
            match reading.line(STREAM_STALL_MAX).await {
                Ok(text) => {
                    ended = Ok(ends_list(info, &text));
                    texts.push(text);
                }
                Err(signal) => ended = Err(signal),
            }
        }
        let decoding =
            async move { texts.iter().map(|text| decode_watch::decode_line(info, text)).collect() };
        let batch = AbortOnDropHandle::new(tokio::spawn(decoding.in_current_span()));
        // There is no receiver if the watch was abandoned.
        batches.send(batch).await.map_err(|_| WatchSignal::Ended)?;
        if ended? {
            return Ok(reading);
        }
    }
}

/// Returns whether this is the bookmark after the last object. Objects are recognized by the beginning of their lines,
/// without decoding.
fn ends_list(info: &KindInfo, text: &Bytes) -> bool {
    !text.starts_with(ADDED)
        && matches!(decode_watch::decode_line(info, text), WatchLine::Bookmark { ends_initial: true, .. })
}

fn broken(error: String) -> WatchSignal {
    WatchSignal::Failed { error }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::kind::info;

    const END: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\",\
        \"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n";

    fn objects(count: usize) -> String {
        let added = |at: usize| {
            format!(
                "{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{{\"name\":\"{at}\",\"resourceVersion\":\"1\"}}}}}}\n"
            )
        };
        (0..count).map(added).collect()
    }

    /// Returns the names in the order in which they arrived, and how the list ended.
    async fn read(text: String) -> (Vec<String>, Result<WatchBody, WatchSignal>) {
        let mut list =
            ListInProgress::read(info::<ConfigMap>(), WatchBody::new(Body::from(text.into_bytes())));
        let mut names = Vec::new();
        while let Some(batch) = list.next().await {
            assert!(batch.len() <= BATCH_LINES);
            names.extend(batch.into_iter().filter_map(|line| match line {
                WatchLine::Applied { item: decode_watch::ReceivedObject::Good { key, .. }, .. } => {
                    Some(key.name().to_owned())
                }
                _ => None,
            }));
        }
        (names, list.end().await)
    }

    #[tokio::test]
    async fn a_list_comes_in_order_and_what_follows_is_left_alone() {
        let count = 3 * BATCH_LINES + 7;
        let (names, end) = read(objects(count) + END + &objects(1)).await;
        assert_eq!(names, (0..count).map(|at| at.to_string()).collect::<Vec<_>>());
        let next =
            end.unwrap_or_else(|signal| panic!("it is complete: {signal:?}")).line(STREAM_STALL_MAX).await;
        assert!(next.is_ok_and(|line| line.starts_with(b"{\"type\":\"ADDED\"")));
    }

    #[tokio::test]
    async fn what_came_before_a_break_is_not_lost() {
        let (names, end) = read(objects(5)).await;
        assert_eq!(names.len(), 5);
        assert!(matches!(end, Err(WatchSignal::Ended)));
    }

    #[tokio::test]
    async fn a_list_given_up_ends_its_reader() {
        let mut list = ListInProgress::read(
            info::<ConfigMap>(),
            WatchBody::new(Body::from(objects(100_000).into_bytes())),
        );
        assert!(list.next().await.is_some());
        let reader = list.reader.abort_handle();
        drop(list);
        while !reader.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
