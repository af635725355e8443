//! Caches the responses from converters for stored entries, so that a change that many watches show is converted once.
//!
//! A response belongs to a revision of an object, a version, and a revision of its definition. A definition with a
//! different converter or schema does not reuse any of the earlier responses.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_api::resource::{ConversionWebhook, Resource};
use homeostat_api::status::Status;
use homeostat_core::{Key, Prefix, Revision};
use homeostat_store::Entry;
use tokio::time::Instant;

/// The maximum size of the cached entries: about a thousand normal-sized objects. Beyond that, the oldest are dropped.
const KEPT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum number of definitions whose watches take turns. Beyond that, unused ones are dropped.
const TURNS_MAX: usize = 256;

/// An entry in a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EntryVersion {
    key: Key,
    revision: Revision,
    version: Box<str>,
    /// The revision of the definition.
    defined: Revision,
}

impl EntryVersion {
    pub(super) fn new(resource: &Resource, entry: &Entry, webhook: &ConversionWebhook) -> Self {
        Self {
            key: entry.key.clone(),
            revision: entry.revision,
            version: resource.version.clone(),
            defined: webhook.revision,
        }
    }
}

/// The lock held by the watch that calls the converter for a version. It remembers when and why the last call failed.
pub(super) type ConverterLock = tokio::sync::Mutex<Option<(Instant, Status)>>;

/// The turns of a definition, by version.
type ConverterLocks = HashMap<Box<str>, Arc<ConverterLock>>;

/// Cached entries, oldest first.
#[derive(Default)]
pub(super) struct ConvertedEntries {
    kept: Mutex<KeptEntries>,
    turns: Mutex<HashMap<Prefix, ConverterLocks>>,
}

#[derive(Default)]
struct KeptEntries {
    by_version: HashMap<EntryVersion, Arc<Entry>>,
    order: VecDeque<EntryVersion>,
    bytes: usize,
}

impl ConvertedEntries {
    /// Returns the cached conversion of an entry.
    pub(super) fn get(&self, version: &EntryVersion) -> Option<Arc<Entry>> {
        self.kept().by_version.get(version).cloned()
    }

    /// Caches the conversion of an entry.
    pub(super) fn put(&self, version: EntryVersion, entry: &Arc<Entry>) {
        let mut kept = self.kept();
        kept.bytes += entry.bytes.len();
        match kept.by_version.insert(version.clone(), Arc::clone(entry)) {
            Some(before) => kept.bytes -= before.bytes.len(),
            None => kept.order.push_back(version),
        }
        while kept.bytes > KEPT_BYTES_MAX {
            let Some(oldest) = kept.order.pop_front() else { break };
            if let Some(dropped) = kept.by_version.remove(&oldest) {
                kept.bytes -= dropped.bytes.len();
            }
        }
    }

    /// Returns the lock for the watches of one version.
    pub(super) fn converter_lock(&self, resource: &Resource) -> Arc<ConverterLock> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= TURNS_MAX {
            turns.retain(|_, versions| versions.values().any(|turn| Arc::strong_count(turn) > 1));
        }
        let versions = turns.entry(resource.storage().prefix()).or_default();
        Arc::clone(versions.entry(resource.version.clone()).or_default())
    }

    fn kept(&self) -> MutexGuard<'_, KeptEntries> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
