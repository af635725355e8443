//! What happened: the closed list of everything a runtime does. The runtime writes it, `why` prints it, metrics fold
//! it, the console draws it, the simulator's oracles judge it. A new insight is a new variant, never a new channel.
//!
//! **Invariant:** an entry says what was done, never what is desired; a reconciler cannot see it. Entries are small:
//! names are shared, and whole objects are never included.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{FieldDiff, Key, Revision};

/// One line of the journal: who did what, when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Wall (or virtual) time.
    pub at: Timestamp,
    /// The controller, or the operator itself.
    pub source: Source,
    /// What was done.
    pub entry: Entry,
}

/// Everything a runtime does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "camelCase")]
pub enum Entry {
    /// A watch delivered a state of an object.
    Observed {
        /// The object.
        object: Key,
        /// Its resourceVersion.
        revision: Revision,
        /// How it differs from what was known.
        change: Change,
    },
    /// An object could not be decoded and is kept out of the cache until it changes.
    Quarantined {
        /// The object.
        object: Key,
        /// The decoder's message.
        error: String,
    },
    /// A function of the operator that runs outside of reconciles panicked on an object and was skipped.
    Panicked {
        /// The object.
        object: Key,
        /// What it is for: a mapping, a predicate, an index.
        function: Cow<'static, str>,
        /// The panic's message.
        message: String,
    },
    /// The state of one watch changed.
    Watched {
        /// `group/resource`; only the resource in the core group.
        resource: String,
        /// The new state.
        state: WatchState,
    },
    /// A cause asked for a reconcile.
    Queued {
        /// The object.
        object: Key,
        /// Why.
        cause: Cause,
    },
    /// A reconcile began.
    Started {
        /// The object.
        object: Key,
        /// Every cause merged into this run.
        causes: Vec<Cause>,
        /// Failed runs before this one, since the last success.
        failures: u32,
        /// How long the object waited since its first cause became due.
        waited: Duration,
    },
    /// The reconciler read a cached object.
    Read {
        /// Who was being reconciled.
        object: Key,
        /// What it read.
        read: Key,
        /// At which state; absent when there was no such object.
        revision: Option<Revision>,
    },
    /// The reconciler wrote, or would have written.
    Wrote {
        /// Who was being reconciled.
        object: Key,
        /// How.
        verb: Verb,
        /// What was written.
        target: Key,
        /// What came of it.
        outcome: WriteOutcome,
        /// What it changed, when known; empty for objects that were created or deleted as a whole.
        diff: FieldDiff,
    },
    /// Someone else changed actual state away from desired state.
    Drifted {
        /// Who was being reconciled.
        object: Key,
        /// What drifted: a key or the name of an external resource.
        target: String,
        /// Paths that differ.
        diff: Vec<String>,
    },
    /// A handler of the object was called (handlers only; a plain reconciler shows in started and settled).
    Handled {
        /// The object.
        object: Key,
        /// Which handler, by its id.
        handler: String,
        /// What came of it.
        outcome: HandlerOutcome,
        /// How long it ran.
        took: Duration,
    },
    /// A reconcile ended in an error.
    Failed {
        /// The object.
        object: Key,
        /// The error and its causes.
        error: String,
        /// What follows.
        fault: FaultClass,
        /// Failed runs in a row, this one included.
        failures: u32,
        /// How long it ran.
        took: Duration,
    },
    /// A reconcile ended well.
    Settled {
        /// The object.
        object: Key,
        /// What it asked for.
        next: Next,
        /// How long it ran.
        took: Duration,
    },
    /// A reconcile was cancelled before its end: leadership for its object was lost, or the operator stopped.
    Cancelled {
        /// The object.
        object: Key,
        /// How long it ran.
        took: Duration,
    },
    /// A full pass over a world outside the cluster ended.
    Surveyed {
        /// The world's name.
        world: String,
        /// External resources listed.
        things: u64,
        /// Of these, ours.
        owned: u64,
        /// Objects whose external resources differed from the desired state, queued by this pass.
        suspects: u64,
        /// External resources without an owner that wait for their deletion to be confirmed.
        leaks: u64,
        /// Leaks deleted by this pass.
        deleted: u64,
        /// Why leaks that were due were not deleted.
        withheld: Option<String>,
    },
    /// The operator gained or lost leadership.
    Led {
        /// The lease.
        lease: String,
        /// Holding it now?
        is_leader: bool,
    },
}

impl Entry {
    /// Returns the object this entry is about; none for watches, worlds and leases.
    pub fn object(&self) -> Option<&Key> {
        match self {
            Self::Observed { object, .. }
            | Self::Quarantined { object, .. }
            | Self::Panicked { object, .. }
            | Self::Queued { object, .. }
            | Self::Started { object, .. }
            | Self::Read { object, .. }
            | Self::Wrote { object, .. }
            | Self::Drifted { object, .. }
            | Self::Handled { object, .. }
            | Self::Failed { object, .. }
            | Self::Settled { object, .. }
            | Self::Cancelled { object, .. } => Some(object),
            Self::Watched { .. } | Self::Surveyed { .. } | Self::Led { .. } => None,
        }
    }
}

impl Entry {
    /// Returns the other objects that this entry names.
    pub fn mentioned(&self) -> Vec<Key> {
        match self {
            Self::Wrote { target, .. } => vec![target.clone()],
            Self::Read { read, .. } => vec![read.clone()],
            Self::Queued { cause, .. } => cause.mentioned().cloned().into_iter().collect(),
            Self::Started { causes, .. } => causes.iter().filter_map(Cause::mentioned).cloned().collect(),
            _ => Vec::new(),
        }
    }
}

impl Cause {
    fn mentioned(&self) -> Option<&Key> {
        match self {
            Self::Owned { child: other, .. }
            | Self::Related { other, .. }
            | Self::Referenced { other, .. } => Some(other),
            _ => None,
        }
    }
}

impl Record {
    /// Returns roughly how much memory it takes.
    pub fn weight(&self) -> usize {
        let texts = match &self.entry {
            Entry::Wrote { outcome: WriteOutcome::Failed { error }, diff, .. } => error.len() + diff.weight(),
            Entry::Wrote { diff, .. } => diff.weight(),
            Entry::Quarantined { error: text, .. }
            | Entry::Panicked { message: text, .. }
            | Entry::Failed { error: text, .. }
            | Entry::Handled {
                outcome: HandlerOutcome::Retry { error: text, .. } | HandlerOutcome::GaveUp { error: text },
                ..
            } => text.len(),
            Entry::Drifted { diff, .. } => diff.iter().map(String::len).sum(),
            Entry::Started { causes, .. } => size_of_val(causes.as_slice()),
            _ => 0,
        };
        size_of::<Self>() + texts
    }
}

/// How an observed object differs from what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// First seen in a list.
    Listed,
    /// Created since.
    Added,
    /// Changed.
    Modified,
    /// Deleted, as the watch says.
    Deleted,
    /// Deleted while nobody was watching; found by a list that no longer holds it.
    Missed,
}

/// Why an object is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "camelCase")]
pub enum Cause {
    /// It was there when the operator started.
    Listed,
    /// It was created.
    Created,
    /// Its desired state was edited (generation, labels, annotations, deletion).
    Edited,
    /// Something else of it changed, usually its status.
    Changed,
    /// It is gone.
    Deleted,
    /// An object it owns, or owned, changed.
    Owned {
        /// The child.
        child: Key,
        /// How the child changed.
        change: Change,
    },
    /// An object that a mapping relates to it changed.
    Related {
        /// The other object.
        other: Key,
        /// How it changed.
        change: Change,
    },
    /// An object it refers to changed.
    Referenced {
        /// The other object.
        other: Key,
        /// How it changed.
        change: Change,
    },
    /// Something outside the cluster asked.
    Outside {
        /// Who, in the words of the source.
        source: Cow<'static, str>,
    },
    /// The last run asked to be called again.
    Requeued,
    /// The last run failed and its backoff is over.
    Retried,
    /// The periodic pass.
    Resync,
    /// The last run was cut off before its end.
    Interrupted,
}

/// How a write was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// Created.
    Create,
    /// Server-side apply.
    Apply,
    /// Patch.
    Patch,
    /// Replaced.
    Update,
    /// Patch of the status subresource.
    Status,
    /// Deleted.
    Delete,
    /// Finalizer added.
    Finalize,
    /// Finalizer removed.
    Release,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum WriteOutcome {
    /// Not sent: the cache already holds the desired state.
    Skipped,
    /// Sent and acknowledged.
    Done {
        /// The resourceVersion after; absent when the object is gone.
        revision: Option<Revision>,
    },
    /// Not sent: leadership was lost.
    Fenced,
    /// Refused or unanswered.
    Failed {
        /// The error.
        error: String,
    },
}

/// The result of a call of a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum HandlerOutcome {
    /// It succeeded.
    Done,
    /// It failed and is called again.
    Retry {
        /// In how long.
        after: Duration,
        /// The error.
        error: String,
    },
    /// It failed and is not called again until the object changes.
    GaveUp {
        /// The error.
        error: String,
    },
}

/// What follows a failed reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "camelCase")]
pub enum FaultClass {
    /// Retried after the per-object backoff.
    Retry {
        /// In how long.
        after: Duration,
    },
    /// Not retried until the object changes.
    Terminal,
    /// The reconciler panicked; retried like any error.
    Panic {
        /// In how long.
        after: Duration,
    },
}

/// What a successful reconcile asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "next", rename_all = "camelCase")]
pub enum Next {
    /// Wait for a change.
    AwaitChange,
    /// Again after this time.
    Requeue {
        /// In how long.
        after: Duration,
    },
    /// The object no longer exists; its state was dropped.
    Gone,
}

/// The state of one watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum WatchState {
    /// Reading the initial state.
    Listing,
    /// In step with the server.
    Fresh,
    /// Cut off; retried in its own time.
    Failing {
        /// The exact message.
        error: String,
        /// Retried in how long.
        retry: Duration,
    },
}

/// The name of a controller, shared by all its records.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(Arc<str>);

impl Source {
    /// Returns the text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Source {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.0)
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_json() {
        let record = Record {
            at: Timestamp::UNIX_EPOCH,
            source: "webpage".into(),
            entry: Entry::Started {
                object: Key::new("demo.dev", "webpages", "default", "home"),
                causes: vec![Cause::Owned {
                    child: Key::new("apps", "deployments", "default", "home"),
                    change: Change::Missed,
                }],
                failures: 2,
                waited: Duration::from_millis(3),
            },
        };
        let text = serde_json::to_string(&record).expect("a record is plain data");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("it reads back"), record);
    }
}
