//! The items of a list, written while they are sent, between what begins and what ends it.
//!
//! Objects are shown as they are stored, by copying their bytes, or in another form (tables, bare metadata).
//!
//! **Invariant:** a list of any length costs one piece at a time: an object that is not shown as it is stored is parsed when its
//! turn comes, and forgotten. A client that stops reading holds the stored objects and nothing else.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use homeostat_store::Entry;
use jiff::Timestamp;
use serde_json::Value;

use super::Call;
use crate::body::{Body, PIECE_BYTES};
use crate::convert;
use crate::object::encode;
use crate::resource::Resource;
use crate::status::Status;
use crate::table::{ListMeta, View};

/// By how much the last item of a piece usually exceeds it: saves the buffer's last growth.
const EXCESS_BYTES: usize = 4096;

/// A list on its way out.
pub(super) struct Items {
    resource: Arc<Resource>,
    entries: std::vec::IntoIter<Arc<Entry>>,
    shown: Shown,
    pending: Vec<u8>,
    end: String,
    is_first: bool,
    is_done: bool,
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
            entries: entries.into_iter(),
            shown,
            pending: start,
            end,
            is_first: true,
            is_done: false,
        }
    }

    /// The whole answer: a small one at once, a large one as pieces made while it is sent.
    pub(super) fn into_body(mut self) -> Body {
        let first = self.piece();
        if self.is_done {
            return Body::Full(first);
        }
        Body::stream(stream::iter(std::iter::once(first).chain(self)))
    }

    /// The whole answer in one.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.fold(Vec::new(), |mut whole, piece| {
            whole.extend_from_slice(&piece);
            whole
        })
    }

    fn piece(&mut self) -> Bytes {
        let mut piece = std::mem::take(&mut self.pending);
        while piece.len() < PIECE_BYTES {
            let Some(entry) = self.entries.next() else {
                piece.extend_from_slice(self.end.as_bytes());
                self.is_done = true;
                break;
            };
            if !std::mem::take(&mut self.is_first) {
                piece.push(b',');
            }
            self.shown.item_into(&mut piece, &self.resource, &entry);
        }
        self.pending = Vec::with_capacity(if self.is_done { 0 } else { PIECE_BYTES + EXCESS_BYTES });
        piece.into()
    }
}

impl Iterator for Items {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        (!self.is_done).then(|| self.piece())
    }
}

impl Shown {
    fn item_into(&self, piece: &mut Vec<u8>, resource: &Resource, entry: &Entry) {
        match self {
            Self::Stored { prefix } => encode::item_into(piece, &convert::bytes(resource, entry), prefix),
            Self::View { view, now } => view.item_into(piece, &convert::decode(resource, entry), *now),
        }
    }
}
