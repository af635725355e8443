//! The items of a list, written while they are sent, between what begins and what ends it.
//!
//! Objects are shown as they are stored, by copying their bytes, or in another form (tables, bare metadata).
//!
//! **Invariant:** a list of any length costs one piece at a time: an object that is not shown as it is stored is parsed when its
//! turn comes, and forgotten, and a large one that is shown as it is stored is not copied. A client that stops reading holds the
//! stored objects and one piece; those that were changed meanwhile can be told ([`Kept`]). No piece takes the
//! thread for more than some milliseconds: it ends after so much work ([`PIECE_WORK_MAX`]), others are let in before the
//! next, and a large object that must be parsed is a piece of its own, made beside the threads that serve.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use homeostat_store::{Entry, SharedStore};
use jiff::Timestamp;
use serde_json::Value;

use super::{Call, text_weight};
use crate::body::{Body, Kept, PIECE_BYTES};
use crate::convert;
use crate::heavy::{HEAVY_BYTES, Lane};
use crate::object::encode;
use crate::resource::Resource;
use crate::status::Status;
use crate::table::{ListMeta, View};

/// By how much the last item of a piece usually exceeds it: saves the buffer's last growth.
const EXCESS_BYTES: usize = 4096;
/// The work after which a piece ends however short it is, in bytes that are parsed: some five milliseconds. Rows may be much
/// shorter than their objects.
pub(super) const PIECE_WORK_MAX: usize = 512 * 1024;
/// Bytes that are parsed in about the time of a step of evaluation.
const BYTES_PER_STEP: usize = 8;

/// A list on its way out.
pub(super) struct Items {
    resource: Arc<Resource>,
    left: Arc<Left>,
    shown: Shown,
    pending: Vec<u8>,
    /// What is left of an object that is sent without being copied.
    uncopied: Bytes,
    end: String,
    is_first: bool,
    is_done: bool,
    /// The work of the last piece.
    work: usize,
    lane: Lane,
}

/// What of a list is not yet sent.
struct Left {
    objects: Mutex<Objects>,
    store: SharedStore,
}

struct Objects {
    entries: std::vec::IntoIter<Arc<Entry>>,
    /// The one that is sent without being copied.
    current: Option<Arc<Entry>>,
}

impl Left {
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<Arc<Entry>> {
        self.objects().entries.as_slice().first().cloned()
    }
}

impl Kept for Left {
    fn outdated_bytes(&self) -> usize {
        let newest = self.store.snapshot();
        let is_outdated =
            |entry: &Arc<Entry>| !newest.get(&entry.key).is_some_and(|current| Arc::ptr_eq(current, entry));
        let objects = self.objects();
        let all = objects.current.iter().chain(objects.entries.as_slice());
        all.filter(|entry| is_outdated(entry)).map(|entry| entry.bytes.len()).sum()
    }
}

/// How an item is shown.
enum Shown {
    /// Its bytes, without this prefix.
    Stored {
        prefix: String,
    },
    View {
        view: View,
        now: Timestamp,
    },
}

impl Items {
    /// The objects as they are, below the metadata `head`.
    pub(super) fn stored(call: &Call, head: &Value, entries: Vec<Arc<Entry>>) -> Self {
        let (kind, api_version) = (call.resource.list_kind(), call.resource.api_version());
        let (start, end, prefix) = if call.resource.is_custom() {
            let start = format!(r#"{{"apiVersion":"{api_version}","items":["#);
            (start, format!("],\"kind\":\"{kind}\",\"metadata\":{head}}}\n"), String::new())
        } else {
            let start =
                format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{head},"items":["#);
            (start, "]}\n".to_owned(), encode::type_prefix(&call.resource))
        };
        Self::new(call, entries, Shown::Stored { prefix }, (start.into_bytes(), end))
    }

    /// The objects in another form. Refuses a form that is none of a list.
    pub(super) fn viewed(
        call: &Call,
        view: View,
        meta: &ListMeta<'_>,
        entries: Vec<Arc<Entry>>,
    ) -> Result<Self, Status> {
        let around = if entries.is_empty() {
            view.empty_list(meta)?
        } else {
            (view.list_head(meta)?, View::LIST_END.to_owned())
        };
        let now = call.backend.clock.now();
        Ok(Self::new(call, entries, Shown::View { view, now }, around))
    }

    fn new(call: &Call, entries: Vec<Arc<Entry>>, shown: Shown, (start, end): (Vec<u8>, String)) -> Self {
        Self {
            resource: Arc::clone(&call.resource),
            left: Arc::new(Left {
                objects: Mutex::new(Objects { entries: entries.into_iter(), current: None }),
                store: Arc::clone(&call.backend.store),
            }),
            shown,
            pending: start,
            uncopied: Bytes::new(),
            end,
            is_first: true,
            is_done: false,
            work: 0,
            lane: call.lane.clone(),
        }
    }

    /// The whole answer: a small one at once, a large one as pieces made while it is sent.
    pub(super) fn into_body(mut self) -> Body {
        let first = self.piece();
        if self.is_done {
            return Body::Full(first);
        }
        let kept = Arc::clone(&self.left);
        let rest = stream::unfold(self, |mut items| async move {
            let piece = items.next().await?;
            Some((piece, items))
        });
        Body::List(stream::iter([first]).chain(rest).boxed(), kept)
    }

    /// The whole answer in one.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        while !self.is_done {
            whole.extend_from_slice(&self.piece());
        }
        whole
    }

    /// The next piece while the answer is sent.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        if self.work > 0 {
            tokio::task::yield_now().await;
        }
        match self.left.first().filter(|entry| self.uncopied.is_empty() && self.is_large(entry)) {
            Some(entry) => {
                let (weight, lane) = (text_weight(&entry.bytes), self.lane.clone());
                Some(lane.make(weight, || self.piece()).await)
            }
            None => Some(self.piece()),
        }
    }

    /// Is parsing this object too much work for the threads that serve?
    fn is_large(&self, entry: &Entry) -> bool {
        entry.bytes.len() >= HEAVY_BYTES && self.shown.is_parsed(&self.resource, entry)
    }

    fn piece(&mut self) -> Bytes {
        if !self.uncopied.is_empty() {
            return self.uncopied.split_to(self.uncopied.len().min(PIECE_BYTES));
        }
        let mut piece = std::mem::take(&mut self.pending);
        self.work = 0;
        let left = Arc::clone(&self.left);
        let mut objects = left.objects();
        objects.current = None;
        while piece.len() < PIECE_BYTES && self.work < PIECE_WORK_MAX && self.uncopied.is_empty() {
            let first = objects.entries.as_slice().first();
            if !piece.is_empty() && first.is_some_and(|entry| self.is_large(entry)) {
                break;
            }
            let Some(entry) = objects.entries.next() else {
                piece.extend_from_slice(self.end.as_bytes());
                self.is_done = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                piece.push(b',');
            }
            match self.shown.uncopied(&mut piece, &self.resource, &entry) {
                Some(bytes) => (self.uncopied, objects.current) = (bytes, Some(entry)),
                None => self.work += self.shown.item_into(&mut piece, &self.resource, &entry),
            }
        }
        drop(objects);
        self.pending = Vec::with_capacity(if self.is_done { 0 } else { PIECE_BYTES + EXCESS_BYTES });
        piece.into()
    }
}

impl Shown {
    /// Must the object be parsed?
    fn is_parsed(&self, resource: &Resource, entry: &Entry) -> bool {
        match self {
            Self::Stored { .. } => !convert::is_current(resource, entry),
            Self::View { .. } => true,
        }
    }

    /// The bytes of a large item that is shown as it is stored; writes what comes before them.
    fn uncopied(&self, piece: &mut Vec<u8>, resource: &Resource, entry: &Entry) -> Option<Bytes> {
        let Self::Stored { prefix } = self else { return None };
        if entry.bytes.len() < PIECE_BYTES || !convert::is_current(resource, entry) {
            return None;
        }
        let (start, bytes) = encode::item(&entry.bytes, prefix);
        piece.extend_from_slice(start);
        Some(bytes)
    }

    /// Writes an item, and tells how much work it was.
    fn item_into(&self, piece: &mut Vec<u8>, resource: &Resource, entry: &Entry) -> usize {
        match self {
            Self::Stored { prefix } if convert::is_current(resource, entry) => {
                encode::item_into(piece, &entry.bytes, prefix);
                0
            }
            Self::Stored { prefix } => {
                encode::item_into(piece, &convert::bytes(resource, entry), prefix);
                entry.bytes.len()
            }
            Self::View { view, now } => {
                let steps = view.item_into(piece, &convert::decode(resource, entry), *now);
                entry.bytes.len() + steps * BYTES_PER_STEP
            }
        }
    }
}
