//! Reports the progress of handlers to people: a warning event at each failure, and the condition `Handled` in the
//! status of custom kinds. The condition is `True` when all handlers have finished with this generation, `False` while
//! one has given up or keeps failing, and is not updated while handlers are running.
//!
//! The progress itself is stored in the record; these reports are only for people, and nothing depends on them.

use std::fmt;
use std::time::Duration;

use homeostat_core::journal::HandlerOutcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::agenda::{Candidate, KnownRecords};
use super::record::FailedAttempts;
use crate::context::{ReconcileRun, condition};
use crate::events::Severity;
use crate::kind::KindInfo;
use crate::kind::object::Object;

const HANDLED: &str = "Handled";

/// How many characters of an error are kept at each end. The server's responses may contain whole objects; an event
/// holds a thousand characters, and failures should not make the record grow.
const ERROR_HEAD: usize = 400;
const ERROR_TAIL: usize = 400;

/// The number of consecutive failures before the status reports them; a brief problem is not reported.
const FAILURES_TOLD: u32 = 3;

/// A handler that keeps failing.
#[derive(Clone, Debug)]
pub(super) struct FailingHandler {
    pub(super) id: String,
    pub(super) error: String,
    pub(super) gave_up: bool,
}

impl fmt::Display for FailingHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.id, self.error)
    }
}

/// Returns the handlers and sub-handlers whose failures in the current state should be reported.
pub(super) fn failing_handlers(candidates: &[Candidate<'_>], known: KnownRecords<'_>) -> Vec<FailingHandler> {
    let mut troubles = Vec::new();
    for Candidate { id, role, at, .. } in candidates {
        let is_its =
            |other: &str| other.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let marks = if role.is_durable() { &known.record.marks } else { &known.in_process.marks };
        let its = marks.iter().filter(|(other, _)| is_its(other));
        let trials = its.filter_map(|(other, mark)| Some((other, mark.trial.as_ref()?)));
        let present = trials.filter(|(_, trial)| trial.at == *at);
        troubles.extend(present.filter_map(|(other, trial)| failing_handler(other, trial)));
    }
    troubles
}

fn failing_handler(id: &str, trial: &FailedAttempts) -> Option<FailingHandler> {
    let gave_up = trial.after.is_none();
    let is_worth_it = gave_up || trial.attempts >= FAILURES_TOLD;
    is_worth_it.then(|| FailingHandler { id: id.to_owned(), error: trial.error.clone(), gave_up })
}

/// The handlers' state as the status reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HandledState {
    /// All have finished.
    Well,
    FailingHandler {
        reason: String,
        message: String,
    },
}

/// The reported state, and the generation it applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportedState {
    pub(super) word: Option<HandledState>,
    generation: Option<i64>,
}

impl ReportedState {
    pub(super) fn new(word: HandledState, object: &Object) -> Self {
        Self { word: Some(word), generation: object.meta().generation }
    }

    /// Reads the condition from the object.
    pub(super) fn read(object: &Object) -> Self {
        let object = object.to_json().unwrap_or_default();
        let all = object["status"]["conditions"].as_array();
        let Some(told) = all.and_then(|all| all.iter().find(|one| one["type"] == HANDLED)) else {
            return Self::default();
        };
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        let failing = || HandledState::FailingHandler { reason: text("reason"), message: text("message") };
        let word = if told["status"] == "True" { HandledState::Well } else { failing() };
        Self { word: Some(word), generation: told["observedGeneration"].as_i64() }
    }

    pub(super) fn is_trouble(&self) -> bool {
        matches!(self.word, Some(HandledState::FailingHandler { .. }))
    }
}

/// Returns whether the status type of this object has conditions. If that cannot be determined, because the status
/// lacks required fields, the server would reject the condition as well.
pub(super) fn keeps_conditions(info: &KindInfo, object: &Object) -> bool {
    let Ok(mut value) = object.to_json() else { return false };
    value["status"]["conditions"] = json!([HandledState::Well.condition()]);
    let tried = (info.decode)(&value.to_string()).and_then(|object| object.to_json());
    tried.is_ok_and(|tried| tried["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty()))
}

impl HandledState {
    /// Describes the failing handlers; returns `None` if there are none.
    pub(super) fn from_failures(troubles: &[FailingHandler]) -> Option<Self> {
        if troubles.is_empty() {
            return None;
        }
        let reason = if troubles.iter().any(|trouble| trouble.gave_up) { "GaveUp" } else { "Failing" };
        let words: Vec<String> = troubles.iter().map(ToString::to_string).collect();
        Some(Self::FailingHandler { reason: reason.to_owned(), message: words.join("; ") })
    }

    pub(super) fn condition(&self) -> Condition {
        match self {
            Self::Well => condition(HANDLED, true, "Succeeded", ""),
            Self::FailingHandler { reason, message } => condition(HANDLED, false, reason, message),
        }
    }
}

/// Creates an event for the object if this attempt of a handler failed.
pub(super) fn warn_of_outcome(context: &ReconcileRun, id: &str, attempt: u32, outcome: &HandlerOutcome) {
    let (reason, error, next) = match outcome {
        HandlerOutcome::Done => return,
        HandlerOutcome::Retry { after, error } => {
            ("HandlerFailed", error, format!("next try in {}", rounded(*after)))
        }
        HandlerOutcome::GaveUp { error } => {
            ("HandlerGaveUp", error, "no further try until the object is edited".to_owned())
        }
    };
    context.event(Severity::Warning, reason, format!("{id}: {error} (attempt {attempt}; {next})"));
}

/// Shortens an error for storing and showing. What failed comes first and the reason comes last, so the middle is left
/// out.
pub(super) fn shorten_error(error: &str) -> String {
    let count = error.chars().count();
    if count <= ERROR_HEAD + ERROR_TAIL {
        return error.to_owned();
    }
    let (head, tail) = (error.chars().take(ERROR_HEAD), error.chars().skip(count - ERROR_TAIL));
    head.chain(" … ".chars()).chain(tail).collect()
}

/// Rounds a pause, to hide its jitter from people.
fn rounded(time: Duration) -> String {
    if time < Duration::from_secs(1) { "a moment".to_owned() } else { format!("{} s", time.as_secs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_error_both_ends_are_kept() {
        assert_eq!(shorten_error("no"), "no");
        let long = format!("apply: {} is no quantity", "ü".repeat(5000));
        let kept = shorten_error(&long);
        assert!(kept.starts_with("apply: ü") && kept.ends_with("ü is no quantity"), "{kept}");
        assert_eq!(kept.chars().count(), ERROR_HEAD + ERROR_TAIL + 3);
    }
}
