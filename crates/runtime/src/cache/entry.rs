//! One cached object: what the watch last showed, and what we wrote since that the watch has not shown yet.
//!
//! **Invariant:** reads see the newer of the two. The overlay goes as soon as the watch reaches its revision, so a
//! reader never loses sight of its own write and never keeps it longer than the server would show it.

use std::sync::Arc;

use homeostat_core::Revision;

use crate::kind::Kind;

/// One object.
#[derive(Debug)]
pub(super) struct Entry<K> {
    pub(super) seen: Option<Arc<K>>,
    pub(super) revision: Revision,
    /// The list that last mentioned it.
    pub(super) epoch: u32,
    overlay: Option<Box<Overlay<K>>>,
}

#[derive(Debug)]
enum Overlay<K> {
    /// We wrote this state.
    Wrote { object: Arc<K>, revision: Revision },
    /// We deleted the object with this uid.
    Deleted { uid: Option<String> },
}

impl<K: Kind> Entry<K> {
    pub(super) fn empty(epoch: u32) -> Self {
        Self { seen: None, revision: Revision::ZERO, epoch, overlay: None }
    }

    /// What a reader sees.
    pub(super) fn visible(&self) -> Option<&Arc<K>> {
        match self.overlay.as_deref() {
            None => self.seen.as_ref(),
            Some(Overlay::Wrote { object, .. }) => Some(object),
            Some(Overlay::Deleted { uid }) => self.seen.as_ref().filter(|seen| seen.meta().uid != *uid),
        }
    }

    /// The watch shows a state. Returns whether it is (the past of) our own write.
    pub(super) fn observe(&mut self, object: Option<Arc<K>>, revision: Revision) -> bool {
        let is_echo =
            matches!(self.overlay.as_deref(), Some(Overlay::Wrote { revision: own, .. }) if revision <= *own);
        let catches_up = match self.overlay.as_deref() {
            None => false,
            Some(Overlay::Wrote { revision: own, .. }) => revision >= *own,
            Some(Overlay::Deleted { uid }) => object.as_ref().is_none_or(|object| object.meta().uid != *uid),
        };
        if catches_up {
            self.overlay = None;
        }
        self.seen = object;
        self.revision = revision;
        is_echo
    }

    /// We wrote this state; older than what is known, it is ignored.
    pub(super) fn wrote(&mut self, object: Arc<K>, revision: Revision) {
        let known = match self.overlay.as_deref() {
            Some(Overlay::Wrote { revision, .. }) => (*revision).max(self.revision),
            _ => self.revision,
        };
        if revision > known {
            self.overlay = Some(Box::new(Overlay::Wrote { object, revision }));
        }
    }

    /// We deleted the object; it is out of sight until the watch agrees.
    pub(super) fn deleted(&mut self, uid: Option<String>) {
        self.overlay = Some(Box::new(Overlay::Deleted { uid }));
    }

    /// A complete list at `revision` does not hold the object: forget also the overlay, unless it is newer.
    pub(super) fn missing_at(&mut self, revision: Revision) {
        if let Some(Overlay::Wrote { revision: own, .. }) = self.overlay.as_deref()
            && *own > revision
        {
            self.seen = None;
            return;
        }
        self.overlay = None;
        self.seen = None;
    }

    /// The server went back to `revision`: what we wrote after it is no longer so. Returns whether there was any.
    pub(super) fn disown_after(&mut self, revision: Revision) -> bool {
        let is_lost =
            matches!(self.overlay.as_deref(), Some(Overlay::Wrote { revision: own, .. }) if *own > revision);
        if is_lost {
            self.overlay = None;
        }
        is_lost
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_none() && !matches!(self.overlay.as_deref(), Some(Overlay::Wrote { .. }))
    }
}
