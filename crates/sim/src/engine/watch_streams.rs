//! Open watches: the server writes into them, the simulator decides when the operator reads each event.
//!
//! **Invariant:** what the API guarantees holds under every fault: the events of a watch come in order and without
//! gaps, or the watch ends.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use homeostat_apiserver::body::Body;
use http_body::Body as _;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::parking::ProcessNumber;
use crate::object_head::ObjectHead;

/// The event that ends a watch whose history is gone.
const EXPIRED: &str = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\
    \"status\":\"Failure\",\"message\":\"too old resource version\",\"reason\":\"Expired\",\"code\":410}}\n";

/// One event of a watch that the operator has not read yet.
#[derive(Clone, Debug)]
pub(crate) struct WatchFrame {
    pub(crate) bytes: Bytes,
    /// `ADDED`, `MODIFIED`, `DELETED`; others never wait.
    pub(crate) change: String,
    /// `default/home`.
    pub(crate) object: String,
    pub(crate) uid: String,
    /// The round in which it arrived. Events are delivered in order of arrival.
    pub(crate) round: u64,
}

/// Why a watch stays silent.
#[derive(Clone, Debug)]
pub(crate) struct WatchHold {
    /// Silent until this many more writes have been made, by anybody.
    pub(crate) writes: Option<u64>,
    /// Silent until this time at the latest.
    pub(crate) until: Instant,
    /// The watch then ends with 410, so that only a list shows what happened.
    pub(crate) expires: bool,
    /// The silence ends as soon as another event of this object arrives.
    pub(crate) object: Option<String>,
}

/// A watch that the operator has open.
pub(crate) struct OpenWatch {
    pub(crate) process: ProcessNumber,
    /// `configmaps`, `pages.demo.dev`.
    pub(crate) resource: Arc<str>,
    pub(crate) body: Body,
    pub(crate) sender: mpsc::UnboundedSender<Bytes>,
    pub(crate) frames: VecDeque<WatchFrame>,
    pub(crate) hold: Option<WatchHold>,
    pub(crate) has_ended: bool,
    rest: Vec<u8>,
}

/// The parts of a watch event that the simulator uses.
pub(crate) fn read_frame(line: &Bytes, round: u64) -> Option<WatchFrame> {
    let ObjectHead { change, name, namespace, uid } = ObjectHead::read(line)?;
    let object = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    Some(WatchFrame { bytes: line.clone(), change, object, uid, round })
}

impl OpenWatch {
    pub(crate) fn new(
        process: ProcessNumber,
        resource: Arc<str>,
        body: Body,
        sender: mpsc::UnboundedSender<Bytes>,
    ) -> Self {
        Self {
            process,
            resource,
            body,
            sender,
            frames: VecDeque::new(),
            hold: None,
            has_ended: false,
            rest: Vec::new(),
        }
    }

    /// Reads the lines that the server has written; the task of `cx` is woken when there are more.
    pub(crate) fn pull(&mut self, cx: &mut Context<'_>) -> Vec<Bytes> {
        let mut lines = Vec::new();
        while !self.has_ended {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.split_lines(bytes, &mut lines);
                    }
                }
                Poll::Ready(_) => self.has_ended = true,
            }
        }
        lines
    }

    /// Adds the lines that these bytes complete. Whole lines, as the server usually writes them, are not copied.
    fn split_lines(&mut self, mut bytes: Bytes, lines: &mut Vec<Bytes>) {
        while let Some(end) = memchr::memchr(b'\n', &bytes) {
            let line = bytes.split_to(end + 1);
            if self.rest.is_empty() {
                lines.push(line);
            } else {
                self.rest.extend_from_slice(&line);
                lines.push(std::mem::take(&mut self.rest).into());
            }
        }
        self.rest.extend_from_slice(&bytes);
    }

    /// Sends bytes that the operator reads immediately.
    pub(crate) fn send(&self, bytes: Bytes) {
        // A watch that the operator has closed is dropped in the next round.
        let _ = self.sender.send(bytes);
    }

    /// Reports that the history is gone. The caller ends the watch.
    pub(crate) fn send_expired(&self) {
        self.send(Bytes::from_static(EXPIRED.as_bytes()));
    }
}
