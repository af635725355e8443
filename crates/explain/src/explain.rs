//! Makes the explanation: asks the rules what is wrong, tells what happened, and sums both up in one or two sentences.

use homeostat_core::Key;

use crate::evidence::Evidence;
use crate::explanation::{Cause, Explanation, Health, Step, StepKind};
use crate::findings::{self, Finding};
use crate::{timeline, times};

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
