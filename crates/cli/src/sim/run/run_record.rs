//! The record of one run for the oracles, and the reference that undisturbed runs provide.

use std::sync::Arc;
use std::time::Duration;

use homeostat_core::canonical_state::{
    CanonicalState, IgnoredPaths, StateDifference, differing_paths, resource_of_key,
};
use homeostat_core::{Key, RequestVerb};
use homeostat_store::{Entry, Event};
use serde_json::Value;

use super::canonical_state::differences;
use super::fault::FaultAtAddress;
use super::scenario_user::UserWrite;
use super::violation::Violation;
use super::wire_log::{Actor, CallRecord, TimelineLine};

/// One change to the store.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) at: Duration,
    pub(super) event: Arc<Event>,
}

impl Change {
    /// Returns the object before and after.
    pub(super) fn objects(&self) -> (Option<Value>, Option<Value>) {
        let read = |entry: &Arc<Entry>| serde_json::from_slice(&entry.bytes).ok();
        (self.event.old.as_ref().and_then(read), self.event.new.as_ref().and_then(read))
    }
}

/// The state at which a run came to rest.
#[derive(Clone, Debug)]
pub(super) struct RestState {
    pub(super) state: CanonicalState,
}

/// Everything about one run.
pub(super) struct RunRecord {
    /// The violations that ended the run, or occurred during it.
    pub(super) violations: Vec<Violation>,
    pub(super) calls: Vec<CallRecord>,
    pub(super) events: Vec<String>,
    pub(super) lines: Vec<TimelineLine>,
    pub(super) changes: Vec<Change>,
    pub(super) user_writes: Vec<UserWrite>,
    /// One for the start, one for each step, one for the cleanup; fewer if the run ended early.
    pub(super) rests: Vec<RestState>,
    /// Faults that happened.
    pub(super) done: Vec<FaultAtAddress>,
    /// Watches that were open at the first rest.
    pub(super) watches: usize,
    /// The operator's last output.
    pub(super) output: Vec<String>,
}

impl RunRecord {
    /// Returns the author of a change.
    pub(super) fn actor_of(&self, change: &Change) -> Actor {
        let (revision, key) = (change.event.revision, &change.event.key);
        if self.user_writes.iter().any(|write| write.is_cause_of(&change.event)) {
            return Actor::User;
        }
        let is_by_call = |call: &CallRecord| {
            can_cause(call, &change.event)
                && call.before < revision
                && call.after.is_none_or(|after| revision <= after)
                && is_about(call, key)
        };
        if self.calls.iter().any(is_by_call) { Actor::Operator } else { Actor::Server }
    }
}

/// Returns whether a request with this verb can make such a change. The server may delete an object that the operator
/// is about to update.
fn can_cause(call: &CallRecord, event: &Event) -> bool {
    let is_marked = |entry: &Entry| entry.bytes.windows(19).any(|part| part == b"\"deletionTimestamp\"");
    match (call.target.verb, &event.old, &event.new) {
        (RequestVerb::Get | RequestVerb::List | RequestVerb::Watch, ..) => false,
        // An eviction deletes, a binding updates.
        (RequestVerb::Create, ..) if !call.target.subresource.is_empty() => true,
        (RequestVerb::Create, old, _) => old.is_none(),
        // Without its last finalizer, an object that is being deleted is gone.
        (RequestVerb::Update | RequestVerb::Patch, Some(old), None) => is_marked(old),
        (RequestVerb::Update | RequestVerb::Patch, ..) => true,
        (RequestVerb::Delete | RequestVerb::DeleteCollection, old, _) => old.is_some(),
    }
}

/// Returns whether a request can have changed this object.
fn is_about(call: &CallRecord, key: &Key) -> bool {
    let target = &call.target;
    let is_name = match target.name.strip_suffix('*') {
        Some(prefix) => key.name().starts_with(prefix),
        None => target.name.is_empty() || key.name() == target.name,
    };
    is_name
        && (target.namespace.is_empty() || key.namespace() == target.namespace)
        && resource_of_key(key) == target.resource()
}

/// The behaviour without faults, from two runs: differences between them are random.
pub(super) struct ReferenceRuns {
    pub(super) record: RunRecord,
    ignored: Vec<IgnoredPaths>,
    ignored_everywhere: Vec<String>,
}

impl ReferenceRuns {
    /// Compares two undisturbed runs.
    pub(super) fn new(first: RunRecord, second: &RunRecord, ignored_everywhere: &[String]) -> Self {
        let pairs = first.rests.iter().zip(&second.rests);
        let ignored = pairs.map(|(one, other)| differing_paths(&one.state, &other.state)).collect();
        Self { record: first, ignored, ignored_everywhere: ignored_everywhere.to_vec() }
    }

    /// Returns how a state differs from the one at this rest.
    pub(super) fn differences(&self, rest: usize, state: &CanonicalState) -> Vec<StateDifference> {
        let Some(expected) = self.record.rests.get(rest) else { return Vec::new() };
        differences(&expected.state, state, &self.ignored[rest], &self.ignored_everywhere)
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Revision;
    use homeostat_store::Value as StoredValue;
    use http::Method;
    use serde_json::json;

    use super::super::request_address::request_target;
    use super::super::wire_log::CallTraits;
    use super::*;

    fn entry(name: &str, meta: &Value) -> Arc<Entry> {
        let object = json!({"kind": "ConfigMap", "metadata": meta}).to_string();
        let key = Key::new("", "configmaps", "default", name);
        Arc::new(Entry::new(key, Revision::new(6), &StoredValue::plain(object)))
    }

    /// Asks who made a change at revision 6 while the user wrote `home` and the operator made this request on `copy`.
    #[track_caller]
    fn check(method: &Method, old: Option<Arc<Entry>>, new: Option<Arc<Entry>>, expected: Actor) {
        let key = new.as_ref().or(old.as_ref()).unwrap().key.clone();
        let event = Arc::new(Event { revision: Revision::new(6), key, new, old });
        let is_creation = *method == Method::POST;
        let path = "/api/v1/namespaces/default/configmaps";
        let path = if is_creation { path.to_owned() } else { format!("{path}/copy") };
        let call = CallRecord {
            at: Duration::ZERO,
            address: String::new(),
            target: request_target(method, &path, "", br#"{"metadata":{"name":"copy"}}"#),
            traits: CallTraits::default(),
            before: Revision::new(5),
            after: Some(Revision::new(7)),
        };
        let record = RunRecord {
            violations: Vec::new(),
            calls: vec![call],
            events: Vec::new(),
            lines: Vec::new(),
            changes: Vec::new(),
            user_writes: vec![UserWrite::new(4, 7, "ConfigMap", "home")],
            rests: Vec::new(),
            done: Vec::new(),
            watches: 0,
            output: Vec::new(),
        };
        assert_eq!(record.actor_of(&Change { at: Duration::ZERO, event }), expected);
    }

    #[test]
    fn a_change_belongs_to_whoever_can_have_made_it() {
        let (plain, marked) = (json!({}), json!({"deletionTimestamp": "2026-01-02T03:04:05Z"}));
        check(&Method::POST, None, Some(entry("copy", &plain)), Actor::Operator);
        check(&Method::POST, None, Some(entry("home", &plain)), Actor::User);
        check(&Method::POST, None, Some(entry("other", &plain)), Actor::Server);
        check(&Method::PUT, Some(entry("copy", &plain)), Some(entry("copy", &plain)), Actor::Operator);
        check(&Method::PUT, Some(entry("copy", &plain)), None, Actor::Server);
        check(&Method::PUT, Some(entry("copy", &marked)), None, Actor::Operator);
        check(&Method::DELETE, Some(entry("copy", &plain)), None, Actor::Operator);
        check(&Method::GET, Some(entry("copy", &plain)), None, Actor::Server);
    }
}
