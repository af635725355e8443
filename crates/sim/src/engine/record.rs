//! The record of one schedule: the points at which faults can be injected, every change of the store and who made it,
//! and the lines of the timeline if one was requested.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use homeostat_core::Revision;
use homeostat_store::{Event, Snapshot};

use super::parking::ProcessNumber;
use crate::alarm::Alarm;

/// A kind of point at which faults can be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PointKind {
    Read,
    /// A read that a server may answer from its cache (`resourceVersion=0`), however old that is.
    ReadAnyVersion,
    Write,
    /// A watch is opened, with or without a list.
    OpenWatch,
    /// An event of a watch is delivered.
    Frame,
    OutsideRead,
    OutsideWrite,
    /// Everything is at rest; the user's next step, or the end, comes next.
    Settled,
}

/// A point in a schedule, with a name that is the same in similar schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) address: Arc<str>,
    pub(crate) kind: PointKind,
    /// The object or resource concerned.
    pub(crate) object: Arc<str>,
    /// The number of steps the user had done before.
    pub(crate) step: usize,
}

/// Who changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Actor {
    Operator(ProcessNumber),
    User,
    /// An operator that runs beside the one under test.
    Beside,
    /// The server itself: garbage collection, deletion of namespaces.
    Server,
    /// Another writer, introduced by a fault.
    Foreign,
}

impl Actor {
    /// Returns the name of the actor for people.
    pub(crate) fn shown(self) -> String {
        match self {
            Self::Operator(ProcessNumber(number)) => format!("the operator (start {number})"),
            Self::User => "the user".to_owned(),
            Self::Beside => "an operator beside".to_owned(),
            Self::Server => "the server".to_owned(),
            Self::Foreign => "somebody else".to_owned(),
        }
    }
}

/// A change of the store.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) actor: Actor,
    pub(crate) at: Duration,
    pub(crate) step: usize,
    pub(crate) event: Arc<Event>,
    /// The state after it.
    pub(crate) after: Snapshot,
    /// For a change by the operator: whether this process has ever seen the object with this uid.
    pub(crate) is_known: bool,
    /// For a change by the operator: another replica wrote the object last, and no lease has changed hands since.
    pub(crate) has_two_writers: bool,
    /// The subresource through which it was written.
    pub(crate) subresource: Option<Arc<str>>,
    /// The write was conditional on the uid or resourceVersion of the object that was read.
    pub(crate) is_guarded: bool,
}

/// What a foreign writer left in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignMark {
    pub(crate) path: String,
    pub(crate) uid: String,
    /// `annotation`, `label` or `condition`.
    pub(crate) what: &'static str,
    pub(crate) mark: String,
    /// It is in a list that an apply replaces as a whole.
    pub(crate) is_in_atomic_list: bool,
}

/// A line of the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimelineLine {
    pub(crate) at: Duration,
    pub(crate) actor: String,
    pub(crate) text: String,
    /// A fault, or what follows from one.
    pub(crate) is_fault: bool,
    pub(crate) revision: Option<Revision>,
}

/// The end of a part of the scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettledEnd {
    /// The number of steps the user had done.
    pub(crate) step: usize,
    pub(crate) snapshot: Snapshot,
    /// Identifies everything that led to the snapshot, in all schedules.
    pub(crate) history: u128,
    pub(crate) outside: String,
    /// Whether the schedule reached this end. If the user deletes everything early, the scenario has no end of its own.
    pub(crate) is_judged: bool,
    /// Whether it came to rest in time.
    pub(crate) is_reached: bool,
    /// What the operator was still failing at: object and error.
    pub(crate) failing: BTreeMap<String, String>,
    /// How it differs from the expected end, if there is one.
    pub(crate) differences: Option<Vec<(String, String)>>,
    /// Failing objects that are not retried until they change, as is right for an invalid spec.
    pub(crate) given_up: BTreeSet<String>,
}

/// Everything known about one schedule.
#[derive(Debug, Default)]
pub(crate) struct RunRecord {
    pub(crate) points: Vec<Point>,
    pub(crate) changes: Vec<Change>,
    pub(crate) lines: Vec<TimelineLine>,
    pub(crate) alarms: Vec<Alarm>,
    /// After the last step of the user.
    pub(crate) scenario_end: SettledEnd,
    /// After everything the user made was deleted.
    pub(crate) cleanup_end: SettledEnd,
    /// States at which the schedule was at rest between the steps.
    pub(crate) rests: Vec<SettledEnd>,
    /// Whether the server refused a given object that was created late, because its name was already taken. The
    /// schedule then has other objects than the reference, and its end cannot be compared.
    pub(crate) is_given_refused: bool,
    /// The deviations that took place, by their index in the plan.
    pub(crate) taken: BTreeSet<usize>,
    /// The rights the operator used, in the terms of a role: verb, group, resource with subresource, namespace.
    pub(crate) rights: BTreeSet<(String, String, String, String)>,
    /// Marks that a foreign writer left.
    pub(crate) foreign_marks: Vec<ForeignMark>,
    /// Writes of the operator that changed something while it should have been at rest.
    pub(crate) writes_at_rest: Vec<String>,
    /// Writes at rest that changed nothing or were refused, and how often each was requested.
    pub(crate) vain_writes_at_rest: BTreeMap<String, u32>,
    /// Writes by processes that are not the leader: the object, and a description.
    pub(crate) deposed_writes: Vec<(String, String)>,
    /// Reads of the outside API at rest: an operator that polls is expected to repair drift.
    pub(crate) outside_reads_at_rest: u64,
    /// Hash of everything that happened, in order.
    pub(crate) hash: u64,
    /// How long a call that the simulator does not control blocked the thread, in real time.
    pub(crate) blocked: std::time::Duration,
    /// The last line of the timeline before the longest such call, if the timeline is written.
    pub(crate) blocked_after: Option<String>,
    /// Hashes of the states that were reached. New states guide the exploration.
    pub(crate) fingerprints: Vec<u64>,
    pub(crate) operations: u64,
    /// The number of operations during the long rest.
    pub(crate) operations_at_rest: u64,
}

impl RunRecord {
    /// Returns the number of operations apart from the long rest.
    pub(crate) fn operations_at_work(&self) -> u64 {
        self.operations - self.operations_at_rest
    }
}

/// Returns a virtual time as text: `1.250s` or `3h 2m`.
pub(crate) fn shown_time(at: Duration) -> String {
    let seconds = at.as_secs();
    if seconds < 600 {
        return format!("{:.3}s", at.as_secs_f64());
    }
    format!("{}h {}m {}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
