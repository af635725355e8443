//! The journal: the closed list of everything a runtime does. The runtime writes it, `why` prints it, metrics aggregate
//! it, the console displays it, and the simulator's oracles check it. New information gets a new variant, never a new
//! channel.
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
    /// A controller is ready to work.
    ControllerStarted {
        /// How many objects it reconciles at a time.
        workers: u64,
    },
    /// A watch delivered a state of an object.
    Observed {
        /// The object.
        object: Key,
        /// Its resourceVersion.
        revision: Revision,
        /// How it differs from the last known state.
        change: Change,
    },
    /// An object could not be decoded and is kept out of the cache until it changes.
    Quarantined {
        /// The object.
        object: Key,
        /// The decoder's message.
        error: String,
    },
    /// A function of the operator that runs outside reconciles panicked on an object and was skipped.
    Panicked {
        /// The object.
        object: Key,
        /// What it is used for: a mapping, a predicate, an index.
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
        /// The object being reconciled.
        object: Key,
        /// What it read.
        read: Key,
        /// The revision it read; `None` if there was no such object.
        revision: Option<Revision>,
    },
    /// The reconciler wrote, or would have written.
    Wrote {
        /// The object being reconciled.
        object: Key,
        /// How.
        verb: Verb,
        /// What was written.
        target: Key,
        /// The result.
        outcome: WriteOutcome,
        /// The changes it made, if known; empty for objects that were created or deleted as a whole.
        diff: FieldDiff,
    },
    /// Someone else changed the actual state away from the desired state.
    Drifted {
        /// The object being reconciled.
        object: Key,
        /// What drifted: a key or the name of an external resource.
        target: String,
        /// Paths that differ.
        diff: Vec<String>,
    },
    /// A handler was called for the object (a plain reconciler appears only as started and settled).
    Handled {
        /// The object.
        object: Key,
        /// Which handler, by its id.
        handler: String,
        /// The result.
        outcome: HandlerOutcome,
        /// How long it ran.
        took: Duration,
    },
    /// A reconcile failed with an error.
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
    /// A reconcile succeeded.
    Settled {
        /// The object.
        object: Key,
        /// What it asked for.
        next: RequestedNext,
        /// How long it ran.
        took: Duration,
    },
    /// A reconcile was cancelled before it finished: leadership for its object was lost, or the operator stopped.
    Cancelled {
        /// The object.
        object: Key,
        /// How long it ran.
        took: Duration,
    },
    /// A full pass over a world outside the cluster completed.
    Surveyed {
        /// The world's name.
        world: String,
        /// External resources that the objects want.
        #[serde(default)]
        wanted: u64,
        /// External resources listed.
        things: u64,
        /// How many of these are ours.
        owned: u64,
        /// Objects whose external resources differed from the desired state, queued by this pass.
        suspects: u64,
        /// External resources without an owner that await confirmation before deletion.
        leaks: u64,
        /// Leaks deleted by this pass.
        deleted: u64,
        /// Why leaks that were due were not deleted.
        withheld: Option<String>,
    },
    /// A full pass over a world outside the cluster failed.
    SurveyFailed {
        /// The world's name.
        world: String,
        /// Why.
        error: String,
        /// Whether the circuit breaker is open: only probes are sent.
        is_blocked: bool,
        /// The time until the next attempt.
        retry: Duration,
    },
    /// The operator gained or lost leadership.
    Led {
        /// The lease.
        lease: String,
        /// Whether the operator holds it now.
        is_leader: bool,
    },
}

impl Entry {
    /// Returns the object this entry is about; none for controllers, watches, worlds and leases.
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
            Self::ControllerStarted { .. }
            | Self::Watched { .. }
            | Self::Surveyed { .. }
            | Self::SurveyFailed { .. }
            | Self::Led { .. } => None,
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
    /// Returns the other object that this cause names.
    pub fn mentioned(&self) -> Option<&Key> {
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
            | Entry::SurveyFailed { error: text, .. }
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

/// How an observed object differs from the last known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// First seen in a list.
    Listed,
    /// Created after the list.
    Added,
    /// Changed.
    Modified,
    /// Deleted, as reported by the watch.
    Deleted,
    /// Deleted while no watch was running; discovered because a list no longer contains it.
    Missed,
}

/// Why an object is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "camelCase")]
pub enum Cause {
    /// It existed when the operator started.
    Listed,
    /// It was created.
    Created,
    /// Its desired state was edited (generation, labels, annotations, deletion).
    Edited,
    /// Something else about it changed, usually its status.
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
    /// Something outside the cluster asked for it.
    Outside {
        /// Who asked, as the source describes itself.
        source: Cow<'static, str>,
    },
    /// The last run asked to be called again.
    Requeued,
    /// The last run failed and its backoff is over.
    Retried,
    /// The periodic pass.
    Resync,
    /// The last run was interrupted before it finished.
    Interrupted,
}

/// How a write was performed.
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
    /// Not sent: the cache already contains the desired state.
    Skipped,
    /// Sent and acknowledged.
    Done {
        /// The resourceVersion afterwards; `None` if the object is gone.
        revision: Option<Revision>,
    },
    /// Not sent: leadership was lost.
    Fenced,
    /// It was refused, or there was no response.
    Failed {
        /// The error.
        error: String,
    },
}

/// The result of a handler call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "camelCase")]
pub enum HandlerOutcome {
    /// It succeeded.
    Done,
    /// It failed and is called again.
    Retry {
        /// The time until then.
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
        /// The time until then.
        after: Duration,
    },
    /// Not retried until the object changes.
    Terminal,
    /// The reconciler panicked; retried like any error.
    Panic {
        /// The time until then.
        after: Duration,
    },
}

/// What a successful reconcile asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "next", rename_all = "camelCase")]
pub enum RequestedNext {
    /// Waits for a change.
    AwaitChange,
    /// Runs again after this time.
    Requeue {
        /// The time until then.
        after: Duration,
    },
    /// The object no longer exists; its state was dropped.
    Gone,
}

/// The state of one watch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "camelCase")]
pub enum WatchState {
    /// It is reading the initial state.
    Listing,
    /// It is in sync with the server.
    Fresh,
    /// It is disconnected and is retried with its own backoff.
    Failing {
        /// The exact message.
        error: String,
        /// The time until the next attempt.
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
