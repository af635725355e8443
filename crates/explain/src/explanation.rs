//! What an explanation consists of: the health of an object, the causes of its problems, how it got there, and what it
//! waits for.

use homeostat_core::{FieldDiff, Key};
use jiff::Timestamp;
use serde::Serialize;

/// Explains why an object is in its present state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The object, as people write it: `Deployment default/web`.
    pub subject: String,
    /// The time of the collection.
    pub at: Timestamp,
    /// Its health.
    pub health: Health,
    /// One or two sentences: the root cause, or its state.
    pub summary: Vec<String>,
    /// What is wrong, root cause first.
    pub causes: Vec<Cause>,
    /// What it waits for.
    pub waits: Vec<String>,
    /// What happened, oldest first.
    pub timeline: Vec<Step>,
    /// What could not be seen, and which records were dropped.
    pub gaps: Vec<String>,
}

/// The health of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    /// Evidence shows that it is in the desired state.
    Healthy,
    /// Nothing is wrong, but it is not done: it is starting, paused or being deleted.
    Waiting,
    /// Something is wrong.
    Failing,
    /// Nothing is known about its state.
    Unknown,
    /// There is no such object, or the caller may not read it.
    Absent,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// The kind of problem.
    pub code: CauseCode,
    /// The object that has it.
    pub about: Key,
    /// What is wrong, as a sentence.
    pub text: String,
}

/// The kinds of problems, root causes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CauseCode {
    /// A finalizer holds an object that should be gone.
    StuckFinalizer,
    /// The operator cannot decode the object.
    Undecodable,
    /// An object should be gone, and the component that should remove it has not done so.
    StuckDeletion,
    /// An object refers to another that does not exist.
    MissingReference,
    /// The image of a container cannot be used.
    BadImage,
    /// A container keeps exiting.
    CrashLoop,
    /// A container's probe fails.
    ProbeFailed,
    /// No node accepts a Pod.
    Unscheduled,
    /// A Service has no ready Pod.
    NoEndpoints,
    /// An object with the desired name belongs to a different owner.
    ConflictingOwner,
    /// An admission webhook failed, or did not answer in time.
    FailingWebhook,
    /// The server refused a write: a quota is used up.
    QuotaExceeded,
    /// The server refused a write: a policy or a webhook denied it.
    Denied,
    /// The server refused a write: the permission is missing.
    MissingRight,
    /// The server refused a write: the object is invalid.
    InvalidObject,
    /// An API outside the cluster does not answer in time.
    SlowOutside,
    /// An API outside the cluster fails.
    FailingWorld,
    /// A reconcile or a handler fails.
    Failing,
    /// A reconcile takes too long.
    SlowRun,
    /// An object is reconciled and written endlessly.
    HotLoop,
    /// No operator acts: its lease has lapsed.
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
    /// Returns its rank among the causes: lower is closer to the root cause.
    pub(crate) fn rank(self) -> usize {
        self as usize
    }

    /// Returns whether it is about a failed write, which several sources report.
    pub(crate) fn is_of_write(self) -> bool {
        matches!(
            self,
            Self::FailingWebhook
                | Self::QuotaExceeded
                | Self::Denied
                | Self::MissingRight
                | Self::InvalidObject
                | Self::Undecodable
        )
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
    /// How many times in a row it happened.
    pub times: u32,
    /// Whether a controller did it, as opposed to a person or an unknown program.
    #[serde(skip)]
    pub(crate) is_automatic: bool,
    /// The kind of step.
    pub kind: StepKind,
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// Something was written.
    Write,
    /// A controller reconciled the object, for an external reason.
    Look,
    /// An event or condition reported something.
    Notice,
    /// Something failed, or caused a warning.
    Failure,
}
