//! Represents one cached object: the state that the watch last showed, and our later writes that the watch has not
//! shown yet.
//!
//! **Invariant:** reads see the newer of the two. The overlay is dropped as soon as the watch reaches its revision, so
//! a reader never loses sight of its own write and never sees it longer than the server would show it.

use std::sync::Arc;

use homeostat_core::Revision;

use super::object_delta::WritingRun;
use crate::kind::object::Object;

/// How many writes to one object may wait for the watch. Beyond that, the oldest are forgotten and count as someone
/// else's, which costs an unnecessary run if a watch is minutes behind.
const UNSEEN_WRITES_MAX: usize = 32;

/// One object.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) seen: Option<Arc<Object>>,
    pub(super) revision: Revision,
    /// The list that last mentioned it.
    pub(super) epoch: u32,
    overlay: Option<Box<Overlay>>,
}

#[derive(Debug)]
struct Overlay {
    state: Laid,
    /// Our writes that the watch has not shown, oldest first.
    unseen: Vec<(Revision, WritingRun)>,
}

/// A state that we know about and that the watch has not shown.
#[derive(Debug)]
enum Laid {
    /// We wrote this state.
    Wrote { object: Arc<Object>, revision: Revision },
    /// Our write moved the object out of the watched scope.
    Left { revision: Revision },
    /// We deleted the object with this uid.
    Deleted { uid: Option<String> },
}

impl Entry {
    pub(super) fn empty(epoch: u32) -> Self {
        Self { seen: None, revision: Revision::ZERO, epoch, overlay: None }
    }

    /// Returns the object that a reader sees.
    pub(super) fn visible(&self) -> Option<&Arc<Object>> {
        match self.overlay.as_ref().map(|overlay| &overlay.state) {
            None => self.seen.as_ref(),
            Some(Laid::Wrote { object, .. }) => Some(object),
            Some(Laid::Left { .. }) => None,
            Some(Laid::Deleted { uid }) => self.seen.as_ref().filter(|seen| seen.meta().uid != *uid),
        }
    }

    /// Stores a state that the watch shows. Returns which run wrote it, if it is the result of one of our writes.
    pub(super) fn observe(&mut self, object: Option<Arc<Object>>, revision: Revision) -> Option<WritingRun> {
        let mut writer = None;
        if let Some(overlay) = &mut self.overlay {
            let own = overlay.unseen.iter().find(|(own, _)| *own == revision);
            writer = own.map(|(_, writer)| writer.clone());
            overlay.unseen.retain(|(own, _)| *own > revision);
            let catches_up = match &overlay.state {
                Laid::Wrote { revision: own, .. } | Laid::Left { revision: own } => revision >= *own,
                Laid::Deleted { uid } => object.as_ref().is_none_or(|object| object.meta().uid != *uid),
            };
            if catches_up {
                self.overlay = None;
            }
        }
        self.seen = object;
        self.revision = revision;
        writer
    }

    /// Stores a state that we wrote, which the watch may never show. If it is older than the known state, it is only
    /// remembered as ours.
    pub(super) fn wrote(&mut self, object: Option<Arc<Object>>, revision: Revision, writer: WritingRun) {
        if revision <= self.revision {
            return;
        }
        let (known, mut unseen) = match self.overlay.take().map(|overlay| *overlay) {
            Some(Overlay { state, unseen }) => (Some(state), unseen),
            None => (None, Vec::new()),
        };
        if unseen.len() == UNSEEN_WRITES_MAX {
            unseen.remove(0);
        }
        unseen.push((revision, writer));
        let state = match known {
            Some(Laid::Wrote { revision: own, object }) if own >= revision => {
                Laid::Wrote { revision: own, object }
            }
            Some(Laid::Left { revision: own }) if own >= revision => Laid::Left { revision: own },
            _ => match object {
                Some(object) => Laid::Wrote { object, revision },
                None => Laid::Left { revision },
            },
        };
        self.overlay = Some(Box::new(Overlay { state, unseen }));
    }

    /// Hides the object with this uid, which we deleted, until the watch agrees.
    pub(super) fn deleted(&mut self, uid: Option<String>) {
        self.overlay = Some(Box::new(Overlay { state: Laid::Deleted { uid }, unseen: Vec::new() }));
    }

    /// Forgets an object that a complete list at `revision` does not contain, together with its overlay unless that is
    /// newer.
    pub(super) fn missing_at(&mut self, revision: Revision) {
        if self.own_revision().is_none_or(|own| own <= revision) {
            self.overlay = None;
        }
        self.seen = None;
    }

    /// Drops our writes after `revision`, to which the server has gone back. Returns whether there were any.
    pub(super) fn disown_after(&mut self, revision: Revision) -> bool {
        let is_lost = self.own_revision().is_some_and(|own| own > revision);
        if is_lost {
            self.overlay = None;
        }
        is_lost
    }

    /// Returns the revision of our write that the watch has not shown.
    fn own_revision(&self) -> Option<Revision> {
        match self.overlay.as_ref()?.state {
            Laid::Wrote { revision, .. } | Laid::Left { revision } => Some(revision),
            Laid::Deleted { .. } => None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let is_written =
            self.overlay.as_ref().is_some_and(|overlay| matches!(overlay.state, Laid::Wrote { .. }));
        self.seen.is_none() && !is_written
    }
}
