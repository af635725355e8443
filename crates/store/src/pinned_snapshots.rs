//! Keeps a few past snapshots available, so that a list read in pages costs at most one rollback.
//!
//! Pinned snapshots outlive the history window on purpose: a slow client's page must not fail because other clients
//! write a lot. They are bounded by count and by the age of history, counted from their last use; compaction drops them
//! immediately.

use std::collections::VecDeque;

use homeostat_core::Revision;
use jiff::Timestamp;

use crate::Snapshot;

/// The maximum number of past snapshots kept. Each shares all unchanged entries with the present; in the worst case
/// they amount to this many copies of the store.
const PINS_MAX: usize = 8;

/// Past snapshots, the most recently used last.
#[derive(Debug, Default)]
pub(crate) struct PinnedSnapshots(VecDeque<SnapshotPin>);

#[derive(Debug)]
struct SnapshotPin {
    snapshot: Snapshot,
    /// When the writer first found it unused after its last use.
    idle_since: Option<Timestamp>,
}

impl PinnedSnapshots {
    pub(crate) fn get(&mut self, revision: Revision) -> Option<Snapshot> {
        let at = self.0.iter().position(|pin| pin.snapshot.revision() == revision)?;
        let SnapshotPin { snapshot, .. } = self.0.remove(at)?;
        self.0.push_back(SnapshotPin { snapshot: snapshot.clone(), idle_since: None });
        Some(snapshot)
    }

    pub(crate) fn put(&mut self, snapshot: Snapshot) {
        if self.get(snapshot.revision()).is_none() {
            self.0.push_back(SnapshotPin { snapshot, idle_since: None });
        }
        if self.0.len() > PINS_MAX {
            self.0.pop_front();
        }
    }

    /// Drops snapshots of states before `revision`.
    pub(crate) fn forget(&mut self, revision: Revision) {
        self.0.retain(|pin| pin.snapshot.revision() >= revision);
    }

    /// Drops snapshots that have been idle since before `oldest`.
    pub(crate) fn expire(&mut self, now: Timestamp, oldest: Timestamp) {
        self.0.retain_mut(|pin| *pin.idle_since.get_or_insert(now) >= oldest);
    }
}
