//! One kind in one namespace or in all: what is listed and watched.

use homeostat_core::Key;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::StreamStart;
use crate::kinds::WatchedKind;

/// A kind, in one namespace or in all.
pub(super) struct KindScope {
    pub(super) kind: WatchedKind,
    pub(super) namespace: Option<String>,
    /// The server answers: what is in it may be shown.
    pub(super) is_open: bool,
}

impl KindScope {
    /// Returns whether the viewer may see this object.
    pub(super) fn covers(&self, key: &Key) -> bool {
        let is_inside = self.namespace.as_ref().is_none_or(|namespace| namespace == key.namespace());
        self.is_open && is_inside && self.kind.group == key.group() && self.kind.resource == key.resource()
    }

    pub(super) fn list_path(&self, limit: usize, next: Option<&str>, start: StreamStart) -> String {
        let path = self.kind.path(self.namespace.as_deref());
        match (next, start) {
            (Some(token), _) => {
                format!("{path}?limit={limit}&continue={}", utf8_percent_encode(token, NON_ALPHANUMERIC))
            }
            (None, StreamStart::Now) => format!("{path}?limit={limit}"),
            (None, StreamStart::Past(from)) => {
                format!("{path}?limit={limit}&resourceVersion={from}&resourceVersionMatch=Exact")
            }
        }
    }

    pub(super) fn watch_path(&self, from: u64) -> String {
        let path = self.kind.path(self.namespace.as_deref());
        format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={from}")
    }
}
