//! Describes one change to one object, and whether we made it ourselves.
//!
//! A change counts as our own write only if that is certain: its revision is the one in the server's response to our
//! write, and it was shown by a watch, which never omits a revision of an object. A list may also contain other
//! people's changes. It counts as our own only for the run that wrote it: for another object, or for another controller
//! of the same operator, it is an ordinary change.

use std::sync::Arc;

use homeostat_core::journal::{Change, Source};
use homeostat_core::{Key, Revision};

use crate::kind::Kind;
use crate::kind::object::{Object, downcast_object};

/// One change to one object.
#[derive(Clone, Debug)]
pub struct Delta<K> {
    /// The object's key.
    pub key: Key,
    /// The state that the watch showed before.
    pub old: Option<Arc<K>>,
    /// The state that it shows now; `None` if the object is gone.
    pub new: Option<Arc<K>>,
    /// The kind of change.
    pub change: Change,
    /// The revision of the change.
    pub revision: Revision,
}

impl<K: Kind> Delta<K> {
    pub(super) fn from_erased(delta: &ObjectDelta) -> Self {
        let ObjectDelta { key, old, new, change, revision, .. } = delta.clone();
        Self { key, old: old.map(downcast_object), new: new.map(downcast_object), change, revision }
    }
}

/// One change to one object of any kind.
#[derive(Clone, Debug)]
pub(crate) struct ObjectDelta {
    pub(crate) key: Key,
    /// The state that the watch showed before.
    pub(crate) old: Option<Arc<Object>>,
    /// The state that it shows now; `None` if the object is gone.
    pub(crate) new: Option<Arc<Object>>,
    pub(crate) change: Change,
    pub(crate) revision: Revision,
    /// The run that wrote it, if it was one of ours.
    pub(crate) writer: Option<WritingRun>,
    /// The runs that are writing to this object: this change may be one of those writes, seen before the response
    /// arrived.
    pub(crate) writing: Vec<WritingRun>,
}

impl ObjectDelta {
    /// Returns whether this is a write that a run of this controller sent for this object and that the watch now shows.
    pub(crate) fn is_echo_for(&self, source: &Source, object: &Key) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.is(source, object))
    }

    /// Returns whether such a run is currently writing to the changed object.
    pub(crate) fn is_while_writing_for(&self, source: &Source, object: &Key) -> bool {
        self.writing.iter().any(|writer| writer.is(source, object))
    }
}

/// A run that writes, given by its controller and the object it reconciles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WritingRun {
    pub(crate) source: Source,
    pub(crate) object: Key,
}

impl WritingRun {
    fn is(&self, source: &Source, object: &Key) -> bool {
        self.source == *source && self.object == *object
    }
}

/// Whether a list or a watch showed a state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownBy {
    List,
    Watch,
}

/// Returns the kind of change between two states, either of which may be absent.
pub(super) fn sort_of(old: Option<&Arc<Object>>, new: Option<&Arc<Object>>, by: ShownBy) -> Change {
    match (old.is_some(), new.is_some()) {
        (_, false) => Change::Deleted,
        (true, true) => Change::Modified,
        (false, true) if by == ShownBy::List => Change::Listed,
        (false, true) => Change::Added,
    }
}
