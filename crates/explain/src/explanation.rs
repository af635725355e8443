//! What an explanation consists of: the health of an object, the causes of its trouble, how it came to be as it is, and
//! what it waits for.

use homeostat_core::{FieldDiff, Key};
use jiff::Timestamp;
use serde::Serialize;

/// Why an object is as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The object, as people write it: `Deployment default/web`.
    pub subject: String,
    /// The time of the collection.
    pub at: Timestamp,
    /// How it is.
    pub health: Health,
    /// One or two sentences: the true cause, or that all is well.
    pub summary: Vec<String>,
    /// What is wrong, the true cause first.
    pub causes: Vec<Cause>,
    /// What it waits for.
    pub waits: Vec<String>,
    /// What happened, oldest first.
    pub timeline: Vec<Step>,
    /// What could not be seen, and what was dropped.
    pub gaps: Vec<String>,
}

/// How an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    /// Nothing is wrong.
    Healthy,
    /// Something is wrong.
    Failing,
    /// There is no such object, or the caller may not read it.
    Absent,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Which sort of problem.
    pub code: CauseCode,
    /// The object that has it.
    pub about: Key,
    /// What is wrong, as a sentence.
    pub text: String,
}

/// The sorts of problems, the truest causes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CauseCode {
    /// A finalizer holds an object that should be gone.
    StuckFinalizer,
    /// The operator cannot decode the object.
    Undecodable,
    /// A Pod refers to an object that does not exist.
    MissingReference,
    /// The image of a container cannot be used.
    BadImage,
    /// A container ends again and again.
    CrashLoop,
    /// A container's probe fails.
    ProbeFailed,
    /// No node takes a Pod.
    Unscheduled,
    /// An object of the desired name belongs to someone else.
    ConflictingOwner,
    /// The server refused a write: the permission is missing.
    MissingRight,
    /// The server refused a write: the object is invalid, or over a quota.
    InvalidObject,
    /// An API outside the cluster does not answer in time.
    SlowOutside,
    /// An API outside the cluster fails.
    FailingWorld,
    /// A reconcile or a handler fails.
    Failing,
    /// A reconcile runs for long.
    SlowRun,
    /// An object is reconciled and written without end.
    HotLoop,
    /// Nobody acts: the lease of the operator has lapsed.
    LapsedLease,
    /// A write from outside was refused.
    RefusedWrite,
    /// A container has not started, or is not ready.
    NotReady,
    /// A condition in a status says that something is wrong.
    Condition,
    /// No controller has processed the newest state.
    Unobserved,
    /// An event warns.
    Warning,
}

impl CauseCode {
    /// Returns its place among the causes: lower is truer.
    pub(crate) fn rank(self) -> usize {
        self as usize
    }
}

/// One thing that happened, or the same thing several times in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When it happened last.
    pub at: Timestamp,
    /// Who did it.
    pub actor: String,
    /// To which object.
    pub about: Key,
    /// What was done.
    pub text: String,
    /// Which fields changed.
    #[serde(skip_serializing_if = "FieldDiff::is_empty")]
    pub diff: FieldDiff,
    /// How often in a row.
    pub times: u32,
    /// Which sort of step it is.
    pub kind: StepKind,
}

/// The sorts of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// Something was written.
    Write,
    /// A controller reconciled the object, for an external reason.
    Look,
    /// An event or condition reported something.
    Notice,
    /// Something failed, or was warned of.
    Failure,
}
