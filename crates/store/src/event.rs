//! Describes changes with one event per key and commit. Topics keep events in order, and watches deliver them.

use std::sync::Arc;

use homeostat_core::{Key, Revision};

use crate::Entry;

/// One change to one key.
#[derive(Clone, Debug)]
pub struct Event {
    /// The revision of the commit.
    pub revision: Revision,
    /// The key.
    pub key: Key,
    /// The entry after the commit; `None` if it was deleted.
    pub new: Option<Arc<Entry>>,
    /// The entry before the commit; `None` if it was created.
    pub old: Option<Arc<Entry>>,
}
