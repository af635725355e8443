//! What happened, in order: writes that the server saw, what operators did and why, and events. A write that both the
//! server and an operator report appears once. Repetitions are counted.

use std::collections::BTreeSet;

use homeostat_core::journal::{Cause, Entry, HandlerOutcome, Record, RequestedNext, Verb, WriteOutcome};
use homeostat_core::write_history::WriteRecord;
use homeostat_core::{FieldDiff, Key, Revision};
use serde_json::Value;

use crate::describe::describe_cause;
use crate::evidence::{Evidence, event_time};
use crate::explanation::{Step, StepKind};
use crate::findings::{Finding, actor_of};
use crate::times;

/// Returns all steps, oldest first.
pub(crate) fn steps(evidence: &Evidence) -> Vec<Step> {
    let mut steps: Vec<Step> = evidence
        .records()
        .filter_map(|(operator, record)| step_of_record(evidence, operator, record))
        .collect();
    let told: BTreeSet<(&Key, Revision)> =
        evidence.records().filter_map(|(_, record)| written(record)).collect();
    let is_told =
        |write: &&WriteRecord| write.after.is_some_and(|after| told.contains(&(&write.target, after)));
    let writes = evidence.writes.iter().filter(|write| !is_told(write));
    steps.extend(writes.map(|write| step_of_write(evidence, write)));
    steps.extend(evidence.events.iter().filter_map(|event| step_of_event(evidence, event)));
    // Events have a resolution of one second, and follow what they are about.
    steps.sort_by_key(|step| (step.at.as_second(), step.at.subsec_nanosecond() == 0, step.at));
    grouped(steps)
}

/// Returns what the object waits for, according to the last report of its controllers.
pub(crate) fn waits(evidence: &Evidence, found: &[Finding]) -> Vec<String> {
    let mut waits: Vec<String> = found
        .iter()
        .filter_map(|finding| {
            Some(format!("{}: {}", evidence.name_of(&finding.about), finding.next.as_ref()?))
        })
        .collect();
    let mut sources = BTreeSet::new();
    let records: Vec<&Record> = evidence.records().map(|(_, record)| record).collect();
    for record in records.into_iter().rev() {
        let Entry::Settled { object, next, .. } = &record.entry else { continue };
        if *object == evidence.subject && sources.insert(record.source.as_str()) {
            let when = times::both(evidence.now, record.at);
            let next = match next {
                RequestedNext::AwaitChange => format!("waits for a change since {when}"),
                RequestedNext::Requeue { after } => match record.at.checked_add(*after) {
                    Ok(at) => format!("looks again {}", times::both(evidence.now, at)),
                    Err(_) => continue,
                },
                RequestedNext::Gone => continue,
            };
            waits.push(format!("the controller {} {next}", record.source));
        }
    }
    waits.dedup();
    waits
}

/// Returns what a record wrote, if it names the revision.
fn written(record: &Record) -> Option<(&Key, Revision)> {
    match &record.entry {
        Entry::Wrote { target, outcome: WriteOutcome::Done { revision: Some(revision) }, .. } => {
            Some((target, *revision))
        }
        _ => None,
    }
}

fn step_of_record(evidence: &Evidence, operator: &str, record: &Record) -> Option<Step> {
    let actor = match record.source.as_str() {
        source if source == operator => format!("operator {operator}"),
        source => format!("controller {source}"),
    };
    let step = |about: &Key, text: String| Step {
        at: record.at,
        actor: actor.clone(),
        about: about.clone(),
        text,
        diff: FieldDiff::default(),
        times: 1,
        is_automatic: true,
        kind: StepKind::Notice,
    };
    let failed = |step: Step| Step { kind: StepKind::Failure, ..step };
    match &record.entry {
        Entry::Wrote { object, verb, target, outcome, diff } => {
            let why =
                if target == object { String::new() } else { format!(" for {}", evidence.name_of(object)) };
            let name = evidence.name_of(target);
            match outcome {
                WriteOutcome::Done { .. } => {
                    let text = format!("{} {name}{why}", verb_done(*verb));
                    Some(Step { diff: diff.clone(), kind: StepKind::Write, ..step(target, text) })
                }
                WriteOutcome::Failed { error } => {
                    Some(failed(step(target, format!("could not write {name}{why}: {error}"))))
                }
                WriteOutcome::Fenced => {
                    Some(failed(step(target, format!("did not write {name}{why}: its lease is lost"))))
                }
                WriteOutcome::Skipped => None,
            }
        }
        Entry::Failed { object, error, failures, .. } => {
            let text = format!("failed on {}, {failures} in a row: {error}", evidence.name_of(object));
            Some(failed(step(object, text)))
        }
        Entry::Handled { object, handler, outcome, .. } => match outcome {
            HandlerOutcome::Done => None,
            HandlerOutcome::Retry { error, .. } | HandlerOutcome::GaveUp { error } => {
                let text = format!("handler {handler} failed on {}: {error}", evidence.name_of(object));
                Some(failed(step(object, text)))
            }
        },
        Entry::Quarantined { object, error } => {
            Some(failed(step(object, format!("could not decode {}: {error}", evidence.name_of(object)))))
        }
        Entry::Panicked { object, function, message } => Some(failed(step(
            object,
            format!("its {function} panicked on {}: {message}", evidence.name_of(object)),
        ))),
        Entry::Drifted { object, target, diff } => {
            let text = format!("found that {target} was changed by others at {}", diff.join(" "));
            Some(step(object, text))
        }
        Entry::Started { object, causes, .. } if *object == evidence.subject => {
            // A reconcile caused by a controller's own write is covered by that write.
            let causes: Vec<String> =
                causes.iter().filter(|cause| is_from_outside(cause)).map(describe_cause).collect();
            let text = format!("looked at {}, because {}", evidence.name_of(object), causes.join("; "));
            (!causes.is_empty()).then(|| Step { kind: StepKind::Look, ..step(object, text) })
        }
        _ => None,
    }
}

fn is_from_outside(cause: &Cause) -> bool {
    matches!(cause, Cause::Listed | Cause::Created | Cause::Edited | Cause::Deleted | Cause::Outside { .. })
}

fn verb_done(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "created",
        Verb::Apply => "applied",
        Verb::Patch => "patched",
        Verb::Update => "updated",
        Verb::Status => "wrote the status of",
        Verb::Delete => "deleted",
        Verb::Finalize => "added its finalizer to",
        Verb::Release => "removed its finalizer from",
    }
}

fn step_of_write(evidence: &Evidence, write: &WriteRecord) -> Step {
    let name = evidence.name_of(&write.target);
    let part =
        if write.subresource.is_empty() { String::new() } else { format!("the {} of ", write.subresource) };
    let verb = match (write.verb.as_str(), &write.before) {
        ("apply" | "patch" | "update", None) if write.refusal.is_none() => "created",
        ("create", _) => "created",
        ("apply", _) => "applied",
        ("patch", _) => "patched",
        ("update", _) => "updated",
        ("delete" | "deletecollection", _) => "deleted",
        (other, _) => other,
    };
    let text = match &write.refusal {
        None => format!("{verb} {part}{name}"),
        Some(refusal) => format!("could not write {part}{name} ({}): {}", refusal.code, refusal.message),
    };
    Step {
        at: write.at,
        actor: actor_of(write),
        about: write.target.clone(),
        text,
        diff: write.diff.clone(),
        times: 1,
        is_automatic: write.user.starts_with("system:"),
        kind: if write.refusal.is_some() { StepKind::Failure } else { StepKind::Write },
    }
}

fn step_of_event(evidence: &Evidence, event: &Value) -> Option<Step> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let uid = event["involvedObject"]["uid"].as_str()?;
    let about = evidence.objects.iter().find(|object| object.uid() == uid)?;
    let at = event_time(event)?;
    let count = event["series"]["count"].as_u64().or_else(|| event["count"].as_u64()).unwrap_or(1);
    let reporter = [&event["reportingComponent"], &event["source"]["component"]];
    let reporter = reporter.into_iter().map(text).find(|name| !name.is_empty()).unwrap_or_default();
    Some(Step {
        at,
        actor: format!("event of {reporter}"),
        about: about.key.clone(),
        text: format!(
            "{}: {}: {}",
            evidence.name_of(&about.key),
            text(&event["reason"]),
            text(&event["message"])
        ),
        diff: FieldDiff::default(),
        times: u32::try_from(count).unwrap_or(u32::MAX),
        is_automatic: true,
        kind: if event["type"] == "Warning" { StepKind::Failure } else { StepKind::Notice },
    })
}

/// How many steps back to look for the same failure: attempts are interleaved with other actors' steps.
const REPETITION_REACH: usize = 20;

/// Merges identical steps: consecutive ones, and for failures also those interleaved with other actors' steps.
fn grouped(steps: Vec<Step>) -> Vec<Step> {
    let mut grouped: Vec<Step> = Vec::new();
    for step in steps {
        let start = grouped.len().saturating_sub(if step.is_failure() { REPETITION_REACH } else { 1 });
        // A failed run ends with the error of its write, which was already reported.
        if grouped[start..].iter().any(|before| is_consequence(before, &step)) {
            continue;
        }
        match grouped[start..].iter().rposition(|before| is_repetition(before, &step)) {
            Some(at) => {
                let times = grouped.remove(start + at).times.saturating_add(step.times);
                grouped.push(Step { times, ..step });
            }
            None => grouped.push(step),
        }
    }
    grouped
}

fn is_repetition(last: &Step, step: &Step) -> bool {
    let is_same_failure =
        last.is_failure() && step.is_failure() && without_details(&last.text) == without_details(&step.text);
    let is_same = last.text == step.text && last.diff == step.diff;
    last.actor == step.actor && last.about == step.about && (is_same || is_same_failure)
}

fn is_consequence(last: &Step, step: &Step) -> bool {
    let error = step.text.split_once(" in a row: ").map(|(_, error)| without_details(error));
    last.is_failure()
        && last.actor == step.actor
        && !last.text.contains(" in a row: ")
        && error.is_some_and(|error| without_details(&last.text).ends_with(&error))
}

impl Step {
    fn is_failure(&self) -> bool {
        self.kind == StepKind::Failure
    }
}

/// Returns the text without digits and quoted names, which differ from one attempt to the next.
fn without_details(text: &str) -> String {
    let plain = text.split('"').step_by(2).collect::<String>();
    plain.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}
