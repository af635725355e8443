//! One kind in one namespace or in all: what is listed and watched.

use futures::stream::AbortHandle;
use homeostat_core::Key;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use super::StreamStart;
use super::change_rate::ChangeRate;
use crate::kinds::WatchedKind;

/// A kind, in one namespace or in all.
pub(super) struct KindScope {
    pub(super) kind: WatchedKind,
    pub(super) namespace: Option<String>,
    /// Whether the server has answered, so that its objects may be shown.
    pub(super) is_open: bool,
    /// How many objects the last list had.
    pub(super) listed: usize,
    /// How fast they change.
    pub(super) rate: ChangeRate,
    /// Ends the watch.
    pub(super) stop_watch: Option<AbortHandle>,
}

impl KindScope {
    pub(super) fn new(kind: WatchedKind, namespace: Option<String>, now: Instant) -> Self {
        let rate = ChangeRate::new(now);
        Self { kind, namespace, is_open: false, listed: 0, rate, stop_watch: None }
    }

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
