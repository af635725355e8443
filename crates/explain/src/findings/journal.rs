//! Journals of operators: the last run of each controller on each object, if it failed, hangs or could never start.

use std::collections::BTreeMap;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, FaultClass, HandlerOutcome, Record, WatchState, WriteOutcome};
use jiff::{SignedDuration, Timestamp};

use super::Finding;
use super::server_words::code_of_words;
use crate::evidence::Evidence;
use crate::explanation::CauseCode;
use crate::times;

/// Runs that take longer are reported: most end within milliseconds.
const SLOW: SignedDuration = SignedDuration::from_secs(5);

/// The outcome of the last run of one controller on one object.
#[derive(Default)]
struct LastRun<'a> {
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    undecodable: Option<&'a str>,
    failure: Option<OngoingFailure<'a>>,
    /// The failed write that caused the failure.
    write: Option<(&'a Key, &'a str)>,
}

/// A failure that has not ended.
struct OngoingFailure<'a> {
    at: Timestamp,
    error: &'a str,
    failures: u32,
    retry: Option<Timestamp>,
    handler: Option<&'a str>,
}

pub(super) fn find(evidence: &Evidence) -> Vec<Finding> {
    let runs = last_runs(evidence);
    let is_below =
        |object: &Key| *object == evidence.subject || evidence.below().any(|seen| seen.key == *object);
    let runs = runs.into_iter().filter(|((_, object), _)| is_below(object));
    let found = runs.filter_map(|((source, object), run)| judge(evidence, source, object, &run));
    found.chain(evidence.records().filter_map(|(_, record)| find_failing_watch(evidence, record))).collect()
}

/// Finds an operator that cannot watch the kind of the object and therefore does not see it.
fn find_failing_watch(evidence: &Evidence, record: &Record) -> Option<Finding> {
    let Entry::Watched { state: WatchState::Failing { error, retry }, .. } = &record.entry else {
        return None;
    };
    let text = format!("is not seen by the operator {}: {error}", record.source);
    let retry = record.at.checked_add(*retry).ok();
    let next = retry.map(|at| format!("it tries again {}", times::both(evidence.now, at)));
    Some(Finding::new(code_of(error, None), &evidence.subject, text).with_next(next))
}

/// Returns why an operator currently fails on this object, and what happens next.
pub(super) fn describe_current_failure(
    evidence: &Evidence,
    object: &Key,
) -> Option<(String, Option<String>)> {
    let runs = last_runs(evidence);
    let mut runs = runs.into_iter().filter(|((_, about), _)| *about == object);
    runs.find_map(|((source, object), run)| {
        judge(evidence, source, object, &run).map(|finding| (finding.text, finding.next))
    })
}

fn last_runs(evidence: &Evidence) -> BTreeMap<(&str, &Key), LastRun<'_>> {
    let mut runs: BTreeMap<(&str, &Key), LastRun<'_>> = BTreeMap::new();
    for (_, record) in evidence.records() {
        if let Some(object) = record.entry.object() {
            observe(runs.entry((record.source.as_str(), object)).or_default(), record);
        }
    }
    runs
}

fn observe<'a>(run: &mut LastRun<'a>, record: &'a Record) {
    match &record.entry {
        Entry::Quarantined { error, .. } => run.undecodable = Some(error),
        Entry::Observed { .. } => run.undecodable = None,
        // A failure lasts until a run succeeds.
        Entry::Started { .. } => (run.started, run.ended, run.write) = (Some(record.at), None, None),
        Entry::Wrote { target, outcome: WriteOutcome::Failed { error }, .. } => {
            run.write = Some((target, error));
        }
        Entry::Failed { error, fault, failures, .. } => {
            let retry = match fault {
                FaultClass::Retry { after } | FaultClass::Panic { after } => {
                    record.at.checked_add(*after).ok()
                }
                FaultClass::Terminal => None,
            };
            run.ended = Some(record.at);
            run.failure =
                Some(OngoingFailure { at: record.at, error, failures: *failures, retry, handler: None });
        }
        Entry::Handled { handler, outcome, .. } => {
            let failing = |error: &'a str, retry| {
                let handler = Some(handler.as_str());
                Some(OngoingFailure { at: record.at, error, failures: 1, retry, handler })
            };
            run.failure = match outcome {
                HandlerOutcome::Done => run.failure.take().filter(|failure| failure.handler != Some(handler)),
                HandlerOutcome::Retry { after, error } => failing(error, record.at.checked_add(*after).ok()),
                HandlerOutcome::GaveUp { error } => failing(error, None),
            };
        }
        Entry::Settled { .. } => {
            run.ended = Some(record.at);
            run.failure = run.failure.take().filter(|failure| failure.handler.is_some());
        }
        Entry::Cancelled { .. } => run.ended = Some(record.at),
        _ => {}
    }
}

fn judge(evidence: &Evidence, source: &str, object: &Key, run: &LastRun<'_>) -> Option<Finding> {
    if let Some(error) = run.undecodable {
        let text = format!("cannot be decoded by {source}, so nothing is done about it: {error}");
        return Some(Finding::new(CauseCode::Undecodable, object, text));
    }
    if let Some(failure) = &run.failure {
        return Some(describe_failure(evidence, source, object, (failure, run.write)));
    }
    if let Some((target, error)) = run.write.filter(|_| run.ended.is_some()) {
        let text = format!("could not be brought about by the controller {source}: {target}: {error}");
        return Some(Finding::new(code_of(error, Some(target)), object, text));
    }
    let started = run.started.filter(|_| run.ended.is_none())?;
    (evidence.now.duration_since(started) > SLOW).then(|| {
        let since = times::both(evidence.now, started);
        let text =
            format!("is being reconciled by the controller {source} since {since}, which has not ended yet");
        Finding::new(CauseCode::SlowRun, object, text)
    })
}

fn describe_failure(
    evidence: &Evidence,
    source: &str,
    object: &Key,
    (failure, write): (&OngoingFailure<'_>, Option<(&Key, &str)>),
) -> Finding {
    let attempt = match failure.failures {
        0 | 1 => String::new(),
        count => format!(", attempt {count}"),
    };
    let what = failure.handler.map(|handler| format!("handler {handler} of ")).unwrap_or_default();
    let when = times::both(evidence.now, failure.at);
    let text = format!("fails in {what}the controller {source} ({when}{attempt}): {}", failure.error);
    let next = match failure.retry {
        Some(at) => format!("it tries again {}", times::both(evidence.now, at)),
        None => "it does not try again until the object changes".to_owned(),
    };
    Finding::new(code_of(failure.error, write.map(|(target, _)| target)), object, text).with_next(Some(next))
}

/// Returns the cause code of a failure, from the messages of the runtime and the server.
fn code_of(error: &str, target: Option<&Key>) -> CauseCode {
    let is_outside = target.is_some_and(|target| target.group() == "outside");
    let says = |words: &[&str]| words.iter().any(|words| error.contains(words));
    match () {
        () if says(&["no answer within"]) => CauseCode::SlowOutside,
        () if is_outside || says(&["the API outside"]) => CauseCode::FailingWorld,
        () if says(&["is not ours"]) => CauseCode::ConflictingOwner,
        () => code_of_words(error, None).unwrap_or(CauseCode::Failing),
    }
}
