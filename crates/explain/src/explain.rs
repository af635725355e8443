//! Builds the explanation: asks the rules what is wrong, lists what happened, and summarizes both in one or two
//! sentences.

use std::collections::BTreeSet;

use homeostat_core::Key;

use crate::evidence::{Evidence, SeenObject};
use crate::explanation::{Cause, Explanation, Health, Step, StepKind};
use crate::findings::{self, Finding};
use crate::sentences::{after_colon, capitalized, plural, sentence};
use crate::state::{self, StateDescription};
use crate::{timeline, times};

/// Explains an object.
pub fn explain(evidence: &Evidence) -> Explanation {
    let found = findings::find(evidence);
    let timeline = timeline::steps(evidence);
    let (health, first) = match (evidence.subject(), found.first()) {
        (None, None) => (Health::Absent, describe_absence(evidence, &timeline)),
        (None, Some(finding)) => (Health::Absent, describe_finding(evidence, finding, &found)),
        (Some(_), Some(finding)) => (Health::Failing, describe_finding(evidence, finding, &found)),
        (Some(subject), None) => describe_state(evidence, subject),
    };
    let causes = found.iter().map(|finding| Cause {
        code: finding.code,
        about: finding.about.clone(),
        text: format!("{} {}", evidence.name_of(&finding.about), finding.text),
    });
    let origin = evidence.subject().and_then(|_| describe_last_change(evidence, &timeline));
    Explanation {
        subject: subject_name(evidence),
        at: evidence.now,
        health,
        summary: std::iter::once(first).chain(origin).collect(),
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

/// Says that there is no such object, and who deleted it if that is known.
fn describe_absence(evidence: &Evidence, steps: &[Step]) -> String {
    let name = subject_name(evidence);
    if !evidence.is_readable {
        return format!("You may not read {name}.");
    }
    let is_deletion = |step: &&Step| step.about == evidence.subject && step.text.starts_with("deleted ");
    match steps.iter().rev().find(is_deletion) {
        Some(step) => {
            format!(
                "{name} does not exist: {} deleted it ({}).",
                step.actor,
                times::both(evidence.now, step.at)
            )
        }
        None => format!("{name} does not exist."),
    }
}

fn describe_finding(evidence: &Evidence, first: &Finding, found: &[Finding]) -> String {
    let path = path_to(evidence, &first.about);
    let next =
        first.next.as_ref().map(|next| format!(" {}", sentence(&capitalized(next)))).unwrap_or_default();
    let is_alike = |other: &&Finding| {
        other.code == first.code
            && other.about != first.about
            && other.about.resource() == first.about.resource()
    };
    let alike: BTreeSet<&Key> = found.iter().filter(is_alike).map(|other| &other.about).collect();
    let kind = evidence.find(&first.about).map_or("object", |object| object.kind.as_str());
    let others = match alike.len() {
        0 => String::new(),
        1 => format!(" The same holds for 1 more {kind}."),
        count => format!(" The same holds for {count} more {}.", plural(kind)),
    };
    let absent = if evidence.subject().is_none() { " does not exist: it" } else { "" };
    format!("{path}{absent} {}{next}{others}", sentence(&first.text))
}

/// Describes the state of an object that has no known problem. If it waits for objects below it, uses the deepest of
/// these, which says more.
fn describe_state(evidence: &Evidence, subject: &SeenObject) -> (Health, String) {
    let own = state::assess(evidence, subject);
    let is_waiting = |(_, state): &(&SeenObject, StateDescription)| state.health == Health::Waiting;
    let leaf = own.depends_on_children.then(|| {
        let pods = evidence.below().filter(|object| object.is_a("", "pods"));
        pods.map(|pod| (pod, state::assess(evidence, pod)))
            .filter(is_waiting)
            .max_by_key(|(pod, _)| pod.depth)
    });
    let (object, leaf) = leaf.flatten().unwrap_or((subject, own.clone()));
    let warning = match own.health {
        Health::Waiting | Health::Unknown => describe_warning(evidence, object, &leaf.text),
        _ => String::new(),
    };
    (own.health, sentence(&format!("{} {}{warning}", path_to(evidence, &object.key), leaf.text)))
}

fn describe_warning(evidence: &Evidence, object: &SeenObject, told: &str) -> String {
    let Some(event) = evidence.last_warning(object) else { return String::new() };
    let (reason, message) = (event["reason"].as_str(), event["message"].as_str());
    match (reason, message.map(str::trim)) {
        (_, Some(message)) if told.contains(message) || told.starts_with("waits for ") => String::new(),
        (reason, message) => {
            format!(
                ". An event warns: {}{}",
                reason.unwrap_or_default(),
                after_colon(message.unwrap_or_default())
            )
        }
    }
}

/// Returns the path from the subject to the object that has the problem: `Deployment web → ReplicaSet web-1 → Pod
/// web-1-x`.
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

/// Returns who last changed the object's desired state, if known. Labels, annotations and finalizers count unless a
/// controller wrote them.
fn describe_last_change(evidence: &Evidence, steps: &[Step]) -> Option<String> {
    let is_wish = |step: &Step, path: &str| match path.split(['.', '[']).next() {
        Some("status") => false,
        Some("metadata") => !step.is_automatic,
        _ => true,
    };
    let is_change = |step: &&Step| {
        step.about == evidence.subject
            && step.kind == StepKind::Write
            && !step.text.starts_with("wrote the status")
            && !step.text.contains(" the binding of ")
            && (step.diff.is_empty() || step.diff.changes.iter().any(|change| is_wish(step, &change.path)))
    };
    let last = steps.iter().rev().find(is_change)?;
    let changes = last.diff.changes.iter().filter(|change| is_wish(last, &change.path));
    let mut changes: Vec<String> = changes.take(3).map(ToString::to_string).collect();
    if last.text.starts_with("deleted ") {
        changes.clear();
    }
    let when = times::both(evidence.now, last.at);
    let diff = after_colon(&changes.join(", "));
    Some(sentence(&format!("Last change: {} {} ({when}){diff}", last.actor, last.text)))
}
