//! A snapshot holds the whole store as of one revision; it is immutable and cloned in O(1).

use std::ops::Bound;
use std::sync::Arc;

use homeostat_core::{Key, Prefix, Revision};
use imbl::OrdMap;

use crate::Entry;

/// The store as of one revision.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    revision: Revision,
    entries: OrdMap<Key, Arc<Entry>>,
}

impl Snapshot {
    /// Creates a snapshot of these entries; for implementations of the store.
    pub fn new(revision: Revision, entries: OrdMap<Key, Arc<Entry>>) -> Self {
        Self { revision, entries }
    }

    pub(crate) fn entries(&self) -> &OrdMap<Key, Arc<Entry>> {
        &self.entries
    }

    pub(crate) fn into_entries(self) -> OrdMap<Key, Arc<Entry>> {
        self.entries
    }

    /// Returns the revision of the snapshot.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the entry under a key.
    pub fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    /// Returns the entries under `prefix` in key order, starting after the key text `after` (empty: from the first).
    pub fn range<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Entry>> + 'a {
        let from =
            if after > prefix.as_str() { Bound::Excluded(after) } else { Bound::Included(prefix.as_str()) };
        self.entries
            .range::<(Bound<&str>, Bound<&str>), str>((from, Bound::Unbounded))
            .take_while(move |(key, _)| prefix.covers(key))
            .map(|(_, entry)| entry)
    }

    /// Returns every entry, in key order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }

    /// Returns the number of entries in the whole store.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the store is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
