//! What is remembered about an object for ever: which handlers have finished with which state, which were tried and
//! failed, when timers ran last. It is the whole durable state of the handlers.
//!
//! Each handler has its own mark, so "the last state handled to the end" is known per handler: one that has finished is
//! not called again because another has not. States that no mark refers to are dropped; at rest there is one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::essence::Fingerprint;

/// The durable state of all handlers of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HandlerRecord {
    /// The states that marks refer to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) states: BTreeMap<Fingerprint, RecordedState>,
    /// By the id of the handler; sub-handlers as `parent/child`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) marks: BTreeMap<String, Mark>,
    /// When each timer ran last.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) ticks: BTreeMap<String, Timestamp>,
}

/// A state of the object that was handled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct RecordedState {
    /// Since when we know it.
    pub(super) since: Timestamp,
    pub(super) essence: Value,
}

/// The progress of one handler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// What it finished with last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen: Option<Seen>,
    /// Its failed attempts at a later state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trial: Option<Trial>,
}

/// What a handler finished with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Seen {
    /// The object, whatever its state.
    Once,
    /// This state.
    State(Fingerprint),
    /// This value of the field it follows.
    Value(Value),
    /// A sub-handler: its part of its parent's work on this state.
    SubHandler(Fingerprint),
}

/// Failed attempts at one state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    /// The state they were made at; at another state they count no more.
    pub(super) at: Fingerprint,
    pub(super) attempts: u32,
    /// When the first was made.
    pub(super) since: Timestamp,
    /// When the next may be made; none when the handler gave up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<Timestamp>,
    /// What the last one said.
    pub(super) error: String,
}

impl HandlerRecord {
    /// Returns whether no handler has ever finished with anything of this object. A sub-handler does not count.
    pub(super) fn is_fresh(&self) -> bool {
        self.marks.values().all(|mark| matches!(mark.seen, None | Some(Seen::SubHandler(_))))
    }

    pub(super) fn seen(&self, id: &str) -> Option<&Seen> {
        self.marks.get(id)?.seen.as_ref()
    }

    /// Returns whether the handler was ever called.
    pub(super) fn has_mark(&self, id: &str) -> bool {
        self.marks.contains_key(id)
    }

    /// Notes that the handler is about to be called for the first time.
    pub(super) fn announce(&mut self, id: &str) {
        self.marks.entry(id.to_owned()).or_default();
    }

    /// Returns the failed attempts at this very state.
    pub(super) fn trial(&self, id: &str, at: Fingerprint) -> Option<&Trial> {
        self.marks.get(id)?.trial.as_ref().filter(|trial| trial.at == at)
    }

    /// Notes that the handler finished, and its sub-handlers with it.
    pub(super) fn succeeded(&mut self, id: &str, seen: Seen) {
        let prefix = format!("{id}/");
        self.marks.retain(|other, _| !other.starts_with(&prefix));
        self.marks.insert(id.to_owned(), Mark { seen: Some(seen), trial: None });
    }

    pub(super) fn failed(&mut self, id: &str, trial: Trial) {
        self.marks.entry(id.to_owned()).or_default().trial = Some(trial);
    }

    /// Notes this state as handled by these handlers, though they were not called: it is the one they start from.
    pub(super) fn adopt<'a>(&mut self, ids: impl IntoIterator<Item = &'a str>, state: Fingerprint) {
        for id in ids {
            let mark = self.marks.entry(id.to_owned()).or_default();
            mark.seen.get_or_insert(Seen::State(state));
        }
    }

    /// Keeps the state while a mark refers to it.
    pub(super) fn keep_state(&mut self, fingerprint: Fingerprint, essence: &Value, since: Timestamp) {
        self.states.entry(fingerprint).or_insert_with(|| RecordedState { since, essence: essence.clone() });
        let used: BTreeSet<Fingerprint> = self.marks.values().filter_map(Mark::state).collect();
        self.states.retain(|fingerprint, _| used.contains(fingerprint));
    }

    /// Drops what belongs to handlers that the program no longer has.
    pub(super) fn prune(&mut self, is_known: impl Fn(&str) -> bool) {
        let parent = |id: &str| id.split_once('/').map_or(id, |(parent, _)| parent).to_owned();
        self.marks.retain(|id, _| is_known(&parent(id)));
        self.ticks.retain(|id, _| is_known(id));
    }

    /// Rewrites each state as today's types write it.
    pub(super) fn renew(&mut self, renewed: impl Fn(&Value) -> Option<Value>) {
        for (fingerprint, state) in std::mem::take(&mut self.states) {
            let essence = renewed(&state.essence).unwrap_or(state.essence);
            let now = Fingerprint::of_value(&essence);
            for mark in self.marks.values_mut() {
                if mark.state() == Some(fingerprint) {
                    mark.seen = Some(Seen::State(now));
                }
            }
            self.states.insert(now, RecordedState { since: state.since, essence });
        }
    }

    /// Returns the essence that this handler finished with last.
    pub(super) fn baseline(&self, id: &str) -> Option<&Value> {
        let state = self.marks.get(id)?.state()?;
        self.states.get(&state).map(|state| &state.essence)
    }
}

impl Mark {
    fn state(&self) -> Option<Fingerprint> {
        match self.seen {
            Some(Seen::State(state)) => Some(state),
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
        record.succeeded("a", Seen::State(two));
        record.keep_state(two, &second, now);
        assert_eq!(
            (record.states.len(), record.baseline("b"), record.baseline("a")),
            (2, Some(&first), Some(&second))
        );
        record.succeeded("b", Seen::State(two));
        record.keep_state(two, &second, now);
        assert_eq!(record.states.len(), 1);
    }

    #[test]
    fn success_ends_trials_and_parts() {
        let mut record = HandlerRecord::default();
        let at = state(1).0;
        let trial = Trial { at, attempts: 1, since: Timestamp::UNIX_EPOCH, after: None, error: "no".into() };
        record.failed("a", trial.clone());
        record.failed("a/x", trial.clone());
        record.succeeded("a/y", Seen::SubHandler(at));
        assert!(record.trial("a", at).is_some() && record.trial("a", state(2).0).is_none());
        record.succeeded("a", Seen::Once);
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
        assert_eq!(record.seen("a"), Some(&Seen::State(Fingerprint::of_value(&expected))));
        assert_eq!(record.baseline("a"), Some(&expected));
    }

    #[test]
    fn handlers_that_are_gone_leave_nothing() {
        let mut record = HandlerRecord::default();
        record.succeeded("old", Seen::Once);
        record.succeeded("new/part", Seen::SubHandler(state(1).0));
        record.ticks.insert("old".into(), Timestamp::UNIX_EPOCH);
        record.prune(|id| id == "new");
        assert_eq!(record.marks.keys().collect::<Vec<_>>(), ["new/part"]);
        assert!(record.ticks.is_empty());
    }
}
