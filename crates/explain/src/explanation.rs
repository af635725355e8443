//! The explanation: the health of an object, the causes of its trouble, how it came to be as it is, and what it waits for.

use homeostat_core::{FieldDiff, Key};
use jiff::Timestamp;
use serde::Serialize;

use crate::evidence::Evidence;
use crate::findings::{self, Finding};
use crate::{timeline, times};

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
    /// An object of the wanted name belongs to somebody else.
    ConflictingOwner,
    /// The server refused a write: the right to it is missing.
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
    /// Nobody has looked at the newest state.
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
    /// A controller looked at the object, for a reason from outside.
    Look,
    /// Somebody noticed something.
    Notice,
    /// Something failed, or was warned of.
    Failure,
}

/// Explains an object.
pub fn explain(evidence: &Evidence) -> Explanation {
    let found = findings::find(evidence);
    let timeline = timeline::steps(evidence);
    let health = match evidence.subject() {
        None if found.is_empty() => Health::Absent,
        _ if found.is_empty() => Health::Healthy,
        _ => Health::Failing,
    };
    let causes = found.iter().map(|finding| Cause {
        code: finding.code,
        about: finding.about.clone(),
        text: format!("{} {}", evidence.name_of(&finding.about), finding.text),
    });
    Explanation {
        subject: subject_name(evidence),
        at: evidence.now,
        health,
        summary: summary(evidence, health, &found, &timeline),
        causes: causes.collect(),
        waits: timeline::waits(evidence, &found),
        timeline,
        gaps: evidence.gaps.clone(),
    }
}

fn subject_name(evidence: &Evidence) -> String {
    let key = &evidence.subject;
    let place = if key.namespace().is_empty() { String::new() } else { format!(" in {}", key.namespace()) };
    format!("{}{place}", evidence.name_of(key))
}

fn summary(evidence: &Evidence, health: Health, found: &[Finding], steps: &[Step]) -> Vec<String> {
    let name = evidence.name_of(&evidence.subject);
    match (health, found.first()) {
        (Health::Absent, _) => vec![format!("{name} does not exist, or you may not read it.")],
        (_, None) => vec![healthy(evidence, &name)].into_iter().chain(origin(evidence, steps)).collect(),
        (_, Some(first)) => {
            let path = path_to(evidence, &first.about);
            let next = first.next.as_ref().map(|next| format!(" {}.", capitalized(next))).unwrap_or_default();
            let others = match found.iter().filter(|other| other.code == first.code).count() {
                0 | 1 => String::new(),
                count => format!(" The same holds for {} more.", count - 1),
            };
            vec![format!("{path} {}.{next}{others}", first.text)]
                .into_iter()
                .chain(origin(evidence, steps))
                .collect()
        }
    }
}

/// Returns the way from the subject to the object that has the problem: `Deployment web → ReplicaSet web-1 → Pod web-1-x`.
fn path_to(evidence: &Evidence, leaf: &Key) -> String {
    let mut names = vec![evidence.name_of(leaf)];
    let mut current = evidence.find(leaf);
    while let Some(object) = current.filter(|object| object.key != evidence.subject) {
        let owners = object.value["metadata"]["ownerReferences"].as_array();
        let uids: Vec<&str> =
            owners.into_iter().flatten().filter_map(|owner| owner["uid"].as_str()).collect();
        let owner = evidence.below().find(|other| uids.contains(&other.uid()) && other.depth < object.depth);
        current = owner;
        names.extend(owner.map(|owner| evidence.name_of(&owner.key)));
    }
    if names.len() == 1 && *leaf != evidence.subject && evidence.subject().is_some() {
        names.push(evidence.name_of(&evidence.subject));
    }
    names.reverse();
    names.join(" → ")
}

fn healthy(evidence: &Evidence, name: &str) -> String {
    let Some(object) = evidence.subject() else { return format!("{name} does not exist.") };
    let (spec, status) = (&object.value["spec"], &object.value["status"]);
    let replicas = spec["replicas"].as_i64().zip(status["readyReplicas"].as_i64().or(Some(0)));
    let ready = replicas.map(|(wanted, ready)| format!(": {ready} of {wanted} replicas are ready"));
    let condition = || {
        let mut conditions = object.conditions();
        let best = conditions
            .find(|one| ["Ready", "Available", "Complete"].iter().any(|name| one["type"] == *name))?;
        let words = best["message"].as_str().filter(|words| !words.is_empty());
        Some(format!(
            ": {}{}",
            best["type"].as_str()?,
            words.map(|words| format!(", {words}")).unwrap_or_default()
        ))
    };
    format!("{name} is healthy{}.", ready.or_else(condition).unwrap_or_default())
}

/// Returns who changed last what the object should be, if that is known.
fn origin(evidence: &Evidence, steps: &[Step]) -> Option<String> {
    let is_wish = |path: &str| !path.starts_with("status") && !path.starts_with("metadata");
    let is_change = |step: &&Step| {
        step.about == evidence.subject
            && step.kind == StepKind::Write
            && (step.diff.is_empty() || step.diff.changes.iter().any(|change| is_wish(&change.path)))
    };
    let last = steps.iter().rev().find(is_change)?;
    let changes = last.diff.changes.iter().filter(|change| is_wish(&change.path));
    let changes: Vec<String> = changes.take(3).map(ToString::to_string).collect();
    let diff = if changes.is_empty() { String::new() } else { format!(": {}", changes.join(", ")) };
    let when = times::both(evidence.now, last.at);
    Some(format!("Last change: {} {} ({when}){diff}.", last.actor, last.text))
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
