//! Entries of a journal as text, one line each.

use homeostat_core::Key;
use homeostat_core::journal::{
    Cause, Change, Entry, FaultClass, HandlerOutcome, RequestedNext, WriteOutcome,
};

/// Describes one entry in one line: a word for the action, then the details.
pub fn describe_entry(entry: &Entry) -> String {
    match entry {
        Entry::Observed { revision, change, .. } => {
            format!("observed     {change:?} at {revision}").to_lowercase()
        }
        Entry::Quarantined { error, .. } => format!("quarantined  {error}"),
        Entry::Panicked { function, message, .. } => {
            format!("panicked     {function} of the operator: {message}")
        }
        Entry::Queued { cause, .. } => format!("queued       {}", describe_cause(cause)),
        Entry::Started { causes, failures, waited, .. } => {
            let causes: Vec<String> = causes.iter().map(describe_cause).collect();
            format!("started      after {waited:.1?}, failures {failures}, because {}", causes.join("; "))
        }
        Entry::Read { read, revision, .. } => match revision {
            Some(revision) => format!("read         {read} at {revision}"),
            None => format!("read         {read}: there is none"),
        },
        Entry::Wrote { verb, target, outcome, diff, .. } => {
            let outcome = match outcome {
                WriteOutcome::Skipped => "nothing to change".to_owned(),
                WriteOutcome::Done { revision: Some(revision) } => format!("now {revision}"),
                WriteOutcome::Done { revision: None } => "done".to_owned(),
                WriteOutcome::Fenced => "not sent: the lease is lost".to_owned(),
                WriteOutcome::Failed { error } => format!("failed: {error}"),
            };
            let diff = if diff.is_empty() { String::new() } else { format!(": {diff}") };
            format!("wrote        {} {target}: {outcome}{diff}", format!("{verb:?}").to_lowercase())
        }
        Entry::Drifted { target, diff, .. } => {
            format!("drifted      {} at {}", target, diff.join(" "))
        }
        Entry::Handled { handler, outcome, took, .. } => {
            let outcome = match outcome {
                HandlerOutcome::Done => "done".to_owned(),
                HandlerOutcome::Retry { after, error } => format!("again in {after:.1?}: {error}"),
                HandlerOutcome::GaveUp { error } => format!("gave up until it is edited: {error}"),
            };
            format!("handled      {handler} in {took:.1?}: {outcome}")
        }
        Entry::Failed { error, fault, failures, took, .. } => {
            let next = match fault {
                FaultClass::Retry { after } => format!("retry in {after:.1?}"),
                FaultClass::Panic { after } => format!("panicked, retry in {after:.1?}"),
                FaultClass::Terminal => "no retry until it is edited".to_owned(),
            };
            format!("failed       after {took:.1?}, {failures} in a row, {next}: {error}")
        }
        Entry::Settled { next, took, .. } => {
            let next = match next {
                RequestedNext::AwaitChange => "waits for a change".to_owned(),
                RequestedNext::Requeue { after } => format!("again in {after:.1?}"),
                RequestedNext::Gone => "it is gone".to_owned(),
            };
            format!("settled      after {took:.1?}, {next}")
        }
        Entry::Cancelled { took, .. } => {
            format!("cancelled    after {took:.1?}: the right to act was lost, or the operator stopped")
        }
        Entry::Watched { resource, .. } => format!("watched      {resource}"),
        Entry::Surveyed { .. } | Entry::SurveyFailed { .. } => describe_survey(entry),
        Entry::ControllerStarted { workers } => format!("ready        with {workers} workers"),
        Entry::Led { lease, is_leader } => format!("led          {lease} {is_leader}"),
    }
}

/// Describes a pass over a world.
fn describe_survey(entry: &Entry) -> String {
    match entry {
        Entry::Surveyed { world, wanted, things, owned, suspects, leaks, deleted, withheld } => {
            let withheld = withheld.as_ref().map(|why| format!(", none deleted: {why}")).unwrap_or_default();
            format!(
                "surveyed     {world}: {wanted} wanted, {things} found, {owned} ours, {suspects} to look at, {leaks} leaks, \
                 {deleted} deleted{withheld}"
            )
        }
        Entry::SurveyFailed { world, error, is_blocked, retry } => {
            let blocked = if *is_blocked { ", and nothing else is sent until then" } else { "" };
            format!("not surveyed {world}: {error}; tried again in {retry:.1?}{blocked}")
        }
        _ => String::new(),
    }
}

fn describe_related(whose: &str, other: &Key, change: Change) -> String {
    format!("{whose} {} was {}", other, format!("{change:?}").to_lowercase())
}

/// Describes why an object was reconciled.
pub fn describe_cause(cause: &Cause) -> String {
    match cause {
        Cause::Listed => "it was there at start".to_owned(),
        Cause::Created => "it was created".to_owned(),
        Cause::Edited => "it was edited".to_owned(),
        Cause::Changed => "it changed".to_owned(),
        Cause::Deleted => "it was deleted".to_owned(),
        Cause::Owned { child, change } => describe_related("its", child, *change),
        Cause::Related { other, change } => describe_related("the related", other, *change),
        Cause::Referenced { other, change } => describe_related("the referenced", other, *change),
        Cause::Outside { source } => format!("{source} asked"),
        Cause::Requeued => "it asked to be called again".to_owned(),
        Cause::Retried => "its backoff is over".to_owned(),
        Cause::Resync => "its periodic pass is due".to_owned(),
        Cause::Interrupted => "its last run was cut off".to_owned(),
    }
}
