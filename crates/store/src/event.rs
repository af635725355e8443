//! What changed: one event per key and commit. Topics keep events in order, and watches deliver them.

use std::sync::Arc;

use homeostat_core::{Key, Revision};

use crate::Entry;

/// One change of one key.
#[derive(Clone, Debug)]
pub struct Event {
    /// The commit.
    pub revision: Revision,
    /// The key.
    pub key: Key,
    /// The entry after the commit; `None`: deleted.
    pub new: Option<Arc<Entry>>,
    /// The entry before the commit; `None`: created.
    pub old: Option<Arc<Entry>>,
}
