//! What is followed: events of one prefix, in order, without gaps, from a shared log.
//!
//! A watch is a cursor into the log of its resource, not a queue of its own: a slow watcher costs the others
//! nothing, and is cut off with [`Error::Compacted`] once history has left it behind.

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

/// A cursor over the events of one prefix.
#[derive(Debug)]
pub struct Watch {}
