//! The durable record of an object says which handlers finished with which state, which attempts failed, and when
//! timers last ticked. It is the complete durable state of the handlers.
//!
//! Progress is recorded per handler: a handler that has finished is not called again because another one has not
//! finished. States that no handler refers to are dropped; when all handlers have finished, only one is left.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_core::journal::HandlerOutcome;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::authored_state::Fingerprint;
use super::retry_policy::duration_between;

/// The durable state of all handlers of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HandlerRecord {
    /// The states that the handlers refer to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) states: BTreeMap<Fingerprint, RecordedState>,
    /// The progress by handler id; sub-handlers have `parent/child`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) marks: BTreeMap<String, RecordedProgress>,
    /// When each timer last ticked.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) ticks: BTreeMap<String, Timestamp>,
}

/// A state of the object that was handled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedState {
    /// When it was first observed.
    pub(super) since: Timestamp,
    pub(super) essence: Value,
}

/// The progress of one handler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedProgress {
    /// The state or value that it last finished with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen: Option<FinishedWith>,
    /// Its failed attempts in a later state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trial: Option<FailedAttempts>,
}

/// The state or value that a handler finished with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FinishedWith {
    /// The object in any state.
    Once,
    /// This state.
    State(Fingerprint),
    /// This value of the field that it follows.
    Value(Value),
    /// A sub-handler's part of the parent's work on this state.
    SubHandler(Fingerprint),
}

/// The failed attempts in one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FailedAttempts {
    /// The state in which they occurred; in another state they no longer count.
    pub(super) at: Fingerprint,
    pub(super) attempts: u32,
    /// The time of the first attempt.
    pub(super) since: Timestamp,
    /// The time of the next attempt; `None` if the handler gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Timestamp>,
    /// The error of the last attempt.
    pub(super) error: String,
}

impl FailedAttempts {
    /// Returns how the journal describes the last attempt.
    pub(super) fn outcome(&self, now: Timestamp) -> HandlerOutcome {
        let error = self.error.clone();
        match self.after {
            Some(after) => HandlerOutcome::Retry { after: duration_between(now, after), error },
            None => HandlerOutcome::GaveUp { error },
        }
    }
}

impl HandlerRecord {
    /// Returns whether no handler has ever finished with this object. Sub-handlers do not count.
    pub(super) fn is_fresh(&self) -> bool {
        self.marks.values().all(|mark| matches!(mark.seen, None | Some(FinishedWith::SubHandler(_))))
    }

    pub(super) fn seen(&self, id: &str) -> Option<&FinishedWith> {
        self.marks.get(id)?.seen.as_ref()
    }

    /// Returns whether the handler was ever called.
    pub(super) fn has_mark(&self, id: &str) -> bool {
        self.marks.contains_key(id)
    }

    /// Records that the handler is about to be called for the first time.
    pub(super) fn announce(&mut self, id: &str) {
        self.marks.entry(id.to_owned()).or_default();
    }

    /// Returns the failed attempts in exactly this state.
    pub(super) fn trial(&self, id: &str, at: Fingerprint) -> Option<&FailedAttempts> {
        self.marks.get(id)?.trial.as_ref().filter(|trial| trial.at == at)
    }

    /// Records that the handler and its sub-handlers have finished.
    pub(super) fn succeeded(&mut self, id: &str, seen: FinishedWith) {
        let prefix = format!("{id}/");
        self.marks.retain(|other, _| !other.starts_with(&prefix));
        self.marks.insert(id.to_owned(), RecordedProgress { seen: Some(seen), trial: None });
    }

    pub(super) fn failed(&mut self, id: &str, trial: FailedAttempts) {
        self.marks.entry(id.to_owned()).or_default().trial = Some(trial);
    }

    /// Records this state as handled by these handlers without calling them: they start from this state.
    pub(super) fn adopt<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>, state: Fingerprint) {
        for id in ids {
            let mark = self.marks.entry(id.to_owned()).or_default();
            mark.seen.get_or_insert(FinishedWith::State(state));
        }
    }

    /// Keeps the state as long as a handler refers to it.
    pub(super) fn keep_state(&mut self, fingerprint: Fingerprint, essence: &Value, since: Timestamp) {
        self.states.entry(fingerprint).or_insert_with(|| RecordedState { since, essence: essence.clone() });
        let used: BTreeSet<Fingerprint> = self.marks.values().filter_map(RecordedProgress::state).collect();
        self.states.retain(|fingerprint, _| used.contains(fingerprint));
    }

    /// Drops the progress of handlers that no longer exist in the program.
    pub(super) fn prune(&mut self, is_known: impl Fn(&str) -> bool) {
        let parent = |id: &str| id.split_once('/').map_or(id, |(parent, _)| parent).to_owned();
        self.marks.retain(|id, _| is_known(&parent(id)));
        self.ticks.retain(|id, _| is_known(id));
    }

    /// Rewrites each state in the form in which the current types serialize it.
    pub(super) fn renew(&mut self, renewed: impl Fn(&Value) -> Option<Value>) {
        for (fingerprint, state) in std::mem::take(&mut self.states) {
            let essence = renewed(&state.essence).unwrap_or(state.essence);
            let now = Fingerprint::of_value(&essence);
            for mark in self.marks.values_mut() {
                if mark.state() == Some(fingerprint) {
                    mark.seen = Some(FinishedWith::State(now));
                }
            }
            self.states.insert(now, RecordedState { since: state.since, essence });
        }
    }

    /// Returns the authored state that this handler last finished with.
    pub(super) fn baseline(&self, id: &str) -> Option<&Value> {
        let state = self.marks.get(id)?.state()?;
        self.states.get(&state).map(|state| &state.essence)
    }
}

impl RecordedProgress {
    fn state(&self) -> Option<Fingerprint> {
        match self.seen {
            Some(FinishedWith::State(state)) => Some(state),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state(number: i64) -> (Fingerprint, Value) {
        let essence = json!({"spec": {"size": number}});
        (Fingerprint::of_value(&essence), essence)
    }

    #[test]
    fn states_live_as_long_as_marks_refer_to_them() {
        let mut record = HandlerRecord::default();
        let (now, (one, first), (two, second)) = (Timestamp::UNIX_EPOCH, state(1), state(2));
        record.adopt(["a", "b"], one);
        record.keep_state(one, &first, now);
        record.succeeded("a", FinishedWith::State(two));
        record.keep_state(two, &second, now);
        assert_eq!(
            (record.states.len(), record.baseline("b"), record.baseline("a")),
            (2, Some(&first), Some(&second))
        );
        record.succeeded("b", FinishedWith::State(two));
        record.keep_state(two, &second, now);
        assert_eq!(record.states.len(), 1);
    }

    #[test]
    fn success_ends_trials_and_parts() {
        let mut record = HandlerRecord::default();
        let at = state(1).0;
        let trial =
            FailedAttempts { at, attempts: 1, since: Timestamp::UNIX_EPOCH, after: None, error: "no".into() };
        record.failed("a", trial.clone());
        record.failed("a/x", trial.clone());
        record.succeeded("a/y", FinishedWith::SubHandler(at));
        assert!(record.trial("a", at).is_some() && record.trial("a", state(2).0).is_none());
        record.succeeded("a", FinishedWith::Once);
        assert_eq!(record.marks.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(record.trial("a", at), None);
    }

    #[test]
    fn a_new_default_in_the_type_is_no_edit() {
        let mut record = HandlerRecord::default();
        let (one, first) = state(1);
        record.adopt(["a"], one);
        record.keep_state(one, &first, Timestamp::UNIX_EPOCH);
        record.renew(|essence| {
            let mut essence = essence.clone();
            essence["spec"]["colour"] = json!("red");
            Some(essence)
        });
        let expected = json!({"spec": {"size": 1, "colour": "red"}});
        assert_eq!(record.seen("a"), Some(&FinishedWith::State(Fingerprint::of_value(&expected))));
        assert_eq!(record.baseline("a"), Some(&expected));
    }

    #[test]
    fn handlers_that_are_gone_leave_nothing() {
        let mut record = HandlerRecord::default();
        record.succeeded("old", FinishedWith::Once);
        record.succeeded("new/part", FinishedWith::SubHandler(state(1).0));
        record.ticks.insert("old".into(), Timestamp::UNIX_EPOCH);
        record.prune(|id| id == "new");
        assert_eq!(record.marks.keys().collect::<Vec<_>>(), ["new/part"]);
        assert!(record.ticks.is_empty());
    }
}
