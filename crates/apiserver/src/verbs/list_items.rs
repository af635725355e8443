//! Writes the items of a list while they are sent, between the head and the tail of the list.
//!
//! Objects are shown as they are stored, by copying their bytes, or in a different form (tables, metadata only).
//!
//! **Invariant:** a list of any length takes the memory of only one piece at a time: an object that is shown in a
//! different form is parsed when its turn comes and then dropped, and a large one that is shown as it is stored is not
//! copied. A client that stops reading holds the stored objects and one piece; the size of the objects that were
//! changed in the meantime is known ([`RetainedObjects`]). No piece occupies the thread for more than a few
//! milliseconds: it ends after a certain amount of work ([`PIECE_WORK_MAX`]), other tasks run before the next, and a
//! large object that must be parsed becomes a separate piece, produced outside the serving threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use homeostat_api::encode;
use homeostat_api::resource::Resource;
use homeostat_api::response_forms::{FormRenderer, ListMeta};
use homeostat_api::status::Status;
use homeostat_store::{Entry, SharedStore};
use jiff::Timestamp;
use serde_json::Value;

use super::{AuthorizedRequest, text_cost};
use crate::body::{Body, PIECE_BYTES, RetainedObjects};
use crate::expensive_requests::{EXPENSIVE_BYTES, UserQueue};
use crate::stored::convert;

/// By how much the last item of a piece usually exceeds it. This avoids growing the buffer one last time.
const EXCESS_BYTES: usize = 4096;
/// The work after which a piece ends no matter how short it is, in parsed bytes: about five milliseconds. Rows may be
/// much shorter than their objects.
pub(super) const PIECE_WORK_MAX: usize = 512 * 1024;
/// The number of bytes that are parsed in about the time that one evaluation step takes.
const BYTES_PER_STEP: usize = 8;

/// The maximum size of a list that is parsed as a whole (YAML, indented JSON, other forms as protobuf), as JSON: about
/// 150 MB in memory.
const WHOLE_LIST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Refuses a list that is too large to be parsed as a whole.
pub(super) fn check_whole_list(bytes: usize) -> Result<(), Status> {
    if bytes <= WHOLE_LIST_BYTES_MAX {
        return Ok(());
    }
    let most = WHOLE_LIST_BYTES_MAX / 1024 / 1024;
    Err(Status::too_large(format!(
        "lists of more than {most} MiB are only sent as JSON that is not indented: accept application/json, or use limit to get the list page by page"
    )))
}

/// A list that is being sent.
pub(super) struct ListItems {
    resource: Arc<Resource>,
    left: Arc<UnsentItems>,
    shown: ItemForm,
    pending: Vec<u8>,
    /// The rest of an object that is sent without being copied.
    uncopied: Bytes,
    end: String,
    is_first: bool,
    is_done: bool,
    /// The work of the last piece.
    work: usize,
    queue: UserQueue,
}

/// The part of a list that has not been sent yet.
struct UnsentItems {
    objects: Mutex<UnsentObjects>,
    store: SharedStore,
}

struct UnsentObjects {
    entries: std::vec::IntoIter<Arc<Entry>>,
    /// The entry that is being sent without being copied.
    current: Option<Arc<Entry>>,
}

impl UnsentItems {
    fn objects(&self) -> MutexGuard<'_, UnsentObjects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> Option<Arc<Entry>> {
        self.objects().entries.as_slice().first().cloned()
    }
}

impl RetainedObjects for UnsentItems {
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
enum ItemForm {
    /// Its bytes, without this prefix.
    Stored {
        prefix: String,
    },
    View {
        view: FormRenderer,
        now: Timestamp,
    },
}

impl ListItems {
    /// Lists the objects as they are, with `head` as the metadata.
    pub(super) fn stored(call: &AuthorizedRequest, head: &Value, entries: Vec<Arc<Entry>>) -> Self {
        let (kind, api_version) = (call.resource.list_kind(), call.resource.api_version());
        let (start, end, prefix) = if call.resource.is_custom() {
            let start = format!(r#"{{"apiVersion":"{api_version}","items":["#);
            (start, format!("],\"kind\":\"{kind}\",\"metadata\":{head}}}\n"), String::new())
        } else {
            let start =
                format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{head},"items":["#);
            (start, "]}\n".to_owned(), encode::type_prefix(&call.resource))
        };
        Self::new(call, entries, ItemForm::Stored { prefix }, start.into_bytes(), end)
    }

    /// Lists the objects in a different form. Refuses a form that does not exist for lists.
    pub(super) fn viewed(
        call: &AuthorizedRequest,
        view: FormRenderer,
        meta: &ListMeta<'_>,
        entries: Vec<Arc<Entry>>,
    ) -> Result<Self, Status> {
        let (start, end) = if entries.is_empty() {
            view.empty_list(meta)?
        } else {
            (view.list_head(meta)?, FormRenderer::LIST_END.to_owned())
        };
        let now = call.backend.clock.now();
        Ok(Self::new(call, entries, ItemForm::View { view, now }, start, end))
    }

    fn new(
        call: &AuthorizedRequest,
        entries: Vec<Arc<Entry>>,
        shown: ItemForm,
        start: Vec<u8>,
        end: String,
    ) -> Self {
        Self {
            resource: Arc::clone(&call.resource),
            left: Arc::new(UnsentItems {
                objects: Mutex::new(UnsentObjects { entries: entries.into_iter(), current: None }),
                store: Arc::clone(&call.backend.store),
            }),
            shown,
            pending: start,
            uncopied: Bytes::new(),
            end,
            is_first: true,
            is_done: false,
            work: 0,
            queue: call.queue.clone(),
        }
    }

    /// Returns the body: a small one immediately, a large one as pieces that are produced while it is sent.
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

    /// Returns the whole list. Refuses one that is too large for that.
    pub(super) fn into_bytes(mut self) -> Result<Vec<u8>, Status> {
        let mut whole = Vec::new();
        while !self.is_done {
            whole.extend_from_slice(&self.piece());
            check_whole_list(whole.len())?;
        }
        Ok(whole)
    }

    /// Returns the next piece while the list is sent.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_done {
            return None;
        }
        if self.work > 0 {
            tokio::task::yield_now().await;
        }
        match self.left.first().filter(|entry| self.uncopied.is_empty() && self.is_large(entry)) {
            Some(entry) => {
                let (cost, queue) = (text_cost(&entry.bytes), self.queue.clone());
                Some(queue.run_when_permitted(cost, || self.piece()).await)
            }
            None => Some(self.piece()),
        }
    }

    /// Returns whether parsing this object is too much work for a serving thread.
    fn is_large(&self, entry: &Entry) -> bool {
        entry.bytes.len() >= EXPENSIVE_BYTES && self.shown.is_parsed(&self.resource, entry)
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

impl ItemForm {
    /// Returns whether the object must be parsed.
    fn is_parsed(&self, resource: &Resource, entry: &Entry) -> bool {
        match self {
            Self::Stored { .. } => !convert::is_current(resource, entry),
            Self::View { .. } => true,
        }
    }

    /// Returns the bytes of a large item that is shown as it is stored, after writing the bytes that precede them.
    fn uncopied(&self, piece: &mut Vec<u8>, resource: &Resource, entry: &Entry) -> Option<Bytes> {
        let Self::Stored { prefix } = self else { return None };
        if entry.bytes.len() < PIECE_BYTES || !convert::is_current(resource, entry) {
            return None;
        }
        let (start, bytes) = encode::item(&entry.bytes, prefix);
        piece.extend_from_slice(start);
        Some(bytes)
    }

    /// Writes an item, and returns how much work it took.
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
                let steps = view.item_into(piece, &convert::decode_in_version(resource, entry), *now);
                entry.bytes.len() + steps * BYTES_PER_STEP
            }
        }
    }
}
