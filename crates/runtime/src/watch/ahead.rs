//! The lines of a watch, and a list decoded ahead of the cache.
//!
//! A streaming list is the one moment in which much must be decoded at once. Then a task of its own reads and decodes
//! while the watch's task fills the cache, so that two cores share what one would do alone; the order stays. Single
//! events take no such detour.
//!
//! **Invariant:** at most [`AHEAD_BATCHES`] batches wait, whatever the server sends.

use std::panic::resume_unwind;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::lines::Lines;
use super::machine::Signal;
use super::wire::{self, Line};
use crate::kind::Kind;

/// The longest line held before its end: ten times the largest object a server accepts.
const LINE_BYTES_MAX: usize = 32 << 20;

/// Objects handed over at once: enough that waking the other task costs little beside them.
const BATCH_LINES: usize = 128;

/// Batches decoded ahead: enough that neither task waits for a moment's delay of the other.
const AHEAD_BATCHES: usize = 4;

/// Between two objects of a streaming list a healthy server does not pause this long.
const STREAM_STALL_MAX: Duration = Duration::from_secs(20);

/// A watch's body, line by line.
pub(super) struct Reading {
    body: Body,
    lines: Lines,
}

impl Reading {
    pub(super) fn new(body: Body) -> Self {
        Self { body, lines: Lines::default() }
    }

    /// The next line, or how the watch ended. Dropping the future loses nothing.
    pub(super) async fn line(&mut self, patience: Duration) -> Result<Bytes, Signal> {
        loop {
            if let Some(text) = self.lines.next() {
                return Ok(text);
            }
            if self.lines.pending_bytes() > LINE_BYTES_MAX {
                return Err(broken("the server sent a line without an end".to_owned()));
            }
            match timeout(patience, self.body.frame()).await {
                Err(_) => return Err(Signal::Silent),
                Ok(None) => return Err(Signal::Ended),
                Ok(Some(Err(error))) => return Err(broken(format!("the watch broke off: {error}"))),
                Ok(Some(Ok(frame))) => self.lines.feed(frame.into_data().unwrap_or_default()),
            }
        }
    }
}

/// A list under way: its lines in order, decoded by another task.
pub(super) struct List<K> {
    batches: mpsc::Receiver<Vec<Line<K>>>,
    reader: AbortOnDropHandle<Result<Reading, Signal>>,
}

impl<K: Kind> List<K> {
    pub(super) fn read(reading: Reading) -> Self {
        let (sender, batches) = mpsc::channel(AHEAD_BATCHES);
        let reader = tokio::spawn(decode(reading, sender).in_current_span());
        Self { batches, reader: AbortOnDropHandle::new(reader) }
    }

    /// The next lines; none when the list is complete or broken off.
    pub(super) async fn next(&mut self) -> Option<Vec<Line<K>>> {
        self.batches.recv().await
    }

    /// After the last lines: what follows them, or how the list broke off.
    pub(super) async fn end(self) -> Result<Reading, Signal> {
        self.reader.await.unwrap_or_else(|error| match error.try_into_panic() {
            // The user's type panicked while it was decoded; it does so here as it would have done there.
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(Signal::Ended),
        })
    }
}

/// Decodes to the end of the list.
async fn decode<K: Kind>(
    mut reading: Reading,
    batches: mpsc::Sender<Vec<Line<K>>>,
) -> Result<Reading, Signal> {
    loop {
        let first = reading.line(STREAM_STALL_MAX).await?;
        let mut batch = vec![wire::line(&first)];
        let mut broken_off = None;
        while batch.len() < BATCH_LINES && !ends_list(&batch) && broken_off.is_none() {
            match reading.line(STREAM_STALL_MAX).now_or_never() {
                Some(Ok(text)) => batch.push(wire::line(&text)),
                Some(Err(signal)) => broken_off = Some(signal),
                None => break,
            }
        }
        let is_last = ends_list(&batch);
        // Nobody takes it when the watch was given up.
        batches.send(batch).await.map_err(|_| Signal::Ended)?;
        match broken_off {
            Some(signal) => return Err(signal),
            None if is_last => return Ok(reading),
            None => {}
        }
    }
}

fn ends_list<K>(batch: &[Line<K>]) -> bool {
    matches!(batch.last(), Some(Line::Bookmark { ends_initial: true, .. }))
}

fn broken(error: String) -> Signal {
    Signal::Failed { error, retry_after: None }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

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

    /// The names in the order they came, and the end.
    async fn read(text: String) -> (Vec<String>, Result<Reading, Signal>) {
        let mut list = List::<ConfigMap>::read(Reading::new(Body::from(text.into_bytes())));
        let mut names = Vec::new();
        while let Some(batch) = list.next().await {
            assert!(batch.len() <= BATCH_LINES);
            names.extend(batch.into_iter().filter_map(|line| match line {
                Line::Applied { item: wire::Item::Good(map), .. } => map.metadata.name,
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
        assert!(matches!(end, Err(Signal::Ended)));
    }

    #[tokio::test]
    async fn a_list_given_up_ends_its_reader() {
        let mut list = List::<ConfigMap>::read(Reading::new(Body::from(objects(100_000).into_bytes())));
        assert!(list.next().await.is_some());
        let reader = list.reader.abort_handle();
        drop(list);
        while !reader.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
