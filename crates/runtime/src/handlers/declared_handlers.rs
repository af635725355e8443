//! Holds the declarations of a program: handlers, daemons, listeners and indexes, without any state. The agenda decides
//! what runs, and the runner runs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use super::agenda::{Candidate, Role};
use super::authored_state::Fingerprint;
use super::daemons::Daemon;
use super::handler_context::HandlerContextState;
use super::listeners::Listener;
use super::options::DeclaredPlace;
use super::retry_policy::RetryPolicy;
use super::value_index::Lookups;
use crate::fault::Result;
use crate::kind::object::Object;
use crate::kind::object::ObjectTest;

/// The input of a handler.
pub(super) struct HandlerInput {
    pub(super) object: Arc<Object>,
    /// The state (for updates) or value (for fields) that it last finished with.
    pub(super) before: Option<Value>,
}

/// The function of a handler; a null result is not stored.
pub(super) type HandlerFunction =
    Arc<dyn Fn(HandlerInput, Arc<HandlerContextState>) -> BoxFuture<'static, Result<Value>> + Send + Sync>;

/// Reads a field.
pub(super) type Lens = Arc<dyn Fn(&Object) -> Value + Send + Sync>;

/// A handler that the agenda schedules.
pub(super) struct DeclaredHandler {
    pub(super) id: String,
    pub(super) role: Role,
    pub(super) filters: Vec<ObjectTest>,
    pub(super) policy: RetryPolicy,
    /// The field that it follows, if any.
    pub(super) lens: Option<Lens>,
    pub(super) call: HandlerFunction,
}

/// Everything that a program declared for a kind.
pub(super) struct DeclaredHandlers {
    pub(super) entries: Vec<DeclaredHandler>,
    pub(super) daemons: Vec<Daemon>,
    pub(super) listeners: Vec<Listener>,
    pub(super) lookups: Lookups,
}

impl DeclaredHandlers {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), daemons: Vec::new(), listeners: Vec::new(), lookups: Lookups::default() }
    }

    /// Returns the handler declared last.
    pub(super) fn last_entry(&mut self) -> &mut DeclaredHandler {
        self.entries.last_mut().expect("the type of the builder says that one was declared")
    }

    /// Returns the filters of the last declaration.
    pub(super) fn filters_of_last(&mut self, sort: DeclaredPlace) -> &mut Vec<ObjectTest> {
        match sort {
            DeclaredPlace::Entry => &mut self.last_entry().filters,
            DeclaredPlace::Daemon => &mut self.last_daemon().filters,
            DeclaredPlace::Listener => {
                let last = self.listeners.last_mut();
                &mut last.expect("the type of the builder says that one was declared").filters
            }
        }
    }

    /// Returns the daemon declared last.
    pub(super) fn last_daemon(&mut self) -> &mut Daemon {
        self.daemons.last_mut().expect("the type of the builder says that one was declared")
    }

    /// Returns the indexes of the daemons that should run for the object.
    pub(super) fn daemons_of(&self, object: &Object) -> Vec<usize> {
        let daemons = self.daemons.iter().enumerate();
        daemons.filter(|(_, daemon)| admits(&daemon.filters, object)).map(|(index, _)| index).collect()
    }

    /// Returns the handlers whose filters match the object in this state.
    pub(super) fn candidates<'a>(&'a self, object: &Object, at: Fingerprint) -> Vec<Candidate<'a>> {
        let entries = self.entries.iter().enumerate();
        let matching = entries.filter(|(_, entry)| admits(&entry.filters, object));
        matching.map(|(index, entry)| candidate(index, entry, object, at)).collect()
    }

    /// Returns whether a handler must run before the object may be removed.
    pub(super) fn must_hold(&self, object: &Object) -> bool {
        self.entries.iter().any(|entry| entry.role == Role::Delete && admits(&entry.filters, object))
    }

    pub(super) fn has_deletions(&self) -> bool {
        self.entries.iter().any(|entry| entry.role == Role::Delete)
    }

    /// Returns whether there are only listeners. In that case no object is ever handled or remembered.
    pub(super) fn only_listens(&self) -> bool {
        self.entries.is_empty() && self.daemons.is_empty() && !self.listeners.is_empty()
    }

    /// Returns whether any progress is recorded with the objects.
    pub(super) fn keeps_records(&self) -> bool {
        self.entries.iter().any(|entry| match entry.role {
            Role::Timer(schedule) => schedule.is_recorded(),
            role => role.is_durable(),
        })
    }

    /// Returns the handlers that start from a state that they were not called with.
    pub(super) fn updates(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|entry| entry.role == Role::Update).map(|entry| entry.id.as_str())
    }

    pub(super) fn is_known(&self, id: &str) -> bool {
        self.entries.iter().any(|entry| entry.id == id)
    }

    /// Refuses two handlers with the same id. Progress is recorded by id, so each would mistake the other's progress
    /// for its own.
    pub(super) fn verify(&self, kind: &str) {
        let mut ids = BTreeSet::new();
        let entries = self.entries.iter().map(|entry| entry.id.as_str());
        let daemons = self.daemons.iter().map(|daemon| daemon.id.as_str());
        let listeners = self.listeners.iter().map(|listener| listener.id.as_str());
        for id in entries.chain(daemons).chain(listeners) {
            assert!(ids.insert(id), "two handlers of {kind} have the id {id}: give each its own");
            assert!(
                !id.is_empty() && !id.contains('/'),
                "{id:?} is not an id: a slash separates sub-handlers"
            );
        }
    }
}

fn candidate<'a>(
    index: usize,
    entry: &'a DeclaredHandler,
    object: &Object,
    at: Fingerprint,
) -> Candidate<'a> {
    let value = entry.lens.as_ref().map(|lens| lens(object));
    let at = value.as_ref().map_or(at, Fingerprint::of_value);
    Candidate { index, id: &entry.id, role: entry.role, at, value }
}

/// Returns whether all filters match.
pub(super) fn admits(filters: &[ObjectTest], object: &Object) -> bool {
    filters.iter().all(|filter| filter(object))
}
