//! Runs the handlers of a kind: takes an object from the queue, asks the agenda what to run, and continues until there
//! is nothing to do. Keeps in memory, per object, the state that need not outlive the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_core::Key;
use homeostat_core::journal::Change;
use jiff::Timestamp;

use super::agenda::Step;
use super::authored_state::Fingerprint;
use super::daemons::{DaemonSupervisor, ObjectDaemons};
use super::declared_handlers::DeclaredHandlers;
use super::handled_condition::{FailingHandler, ReportedState};
use super::handler_run::HandlerRun;
use super::listeners::Mailbox;
use super::record::HandlerRecord;
use super::record_store::LoadedRecord;
use super::retry_policy::duration_between;
use crate::action::Action;
use crate::cache::ObjectDelta;
use crate::context::ReconcileRun;
use crate::controller::assemble::Companion;
use crate::fault::Result;
use crate::kind::object::Object;
use crate::relations::{ConnectRelation, Relation};

/// The maximum number of handlers called in one run. Otherwise handlers that edit their own object would occupy a
/// worker forever.
const STEPS_MAX: usize = 100;

/// The number of surplus memories that triggers a search for those of deleted objects.
const MEMORIES_SPARE: usize = 1024;

/// Runs the handlers of a kind.
pub(super) struct HandlerRunner {
    pub(super) plan: Arc<DeclaredHandlers>,
    memories: Mutex<HashMap<Key, HandlerMemory>>,
    daemons: Arc<DaemonSupervisor>,
    mailbox: Arc<Mailbox>,
}

/// The state that this process remembers about an object.
#[derive(Default)]
pub(super) struct HandlerMemory {
    pub(super) uid: Option<String>,
    /// Whether it existed when this process began to watch.
    pub(super) is_inherited: bool,
    /// Whether it is being taken over; set in the first run.
    pub(super) is_resuming: Option<bool>,
    /// The progress of handlers that start over in each process.
    pub(super) in_process: HandlerRecord,
    /// Its state at the last run, and the time since which it has been in that state.
    pub(super) unchanged: Option<(Fingerprint, Timestamp)>,
    /// The state of the handlers as its status reports it; set in the first run.
    pub(super) told: Option<ReportedState>,
    /// A record that is not saved yet, or that it would cost a request to read.
    pub(super) kept: Option<LoadedRecord>,
}

impl HandlerRunner {
    pub(super) fn new(plan: DeclaredHandlers) -> Self {
        let mailbox = Arc::new(Mailbox::new());
        Self { plan: Arc::new(plan), memories: Mutex::default(), daemons: Arc::default(), mailbox }
    }

    /// Returns the tasks that run alongside the workers: one for all daemons and one for all listeners, if there are
    /// any.
    pub(super) fn companions(&self) -> Vec<Companion> {
        let mut companions: Vec<Companion> = Vec::new();
        if !self.plan.daemons.is_empty() {
            let (daemons, plan) = (self.daemons.clone(), self.plan.clone());
            companions.push(Box::new(move |controller, stop| {
                Box::pin(async move { daemons.supervise(plan, controller, stop).await })
            }));
        }
        if !self.plan.listeners.is_empty() {
            let (mailbox, plan) = (self.mailbox.clone(), self.plan.clone());
            companions.push(Box::new(move |controller, stop| {
                Box::pin(async move { mailbox.deliver(plan, controller, stop).await })
            }));
        }
        companions
    }

    /// Follows the main kind to learn which objects existed before this process and which are gone.
    pub(super) fn follow_main_kind(self: &Arc<Self>) -> Relation {
        let runner = self.clone();
        let connect: ConnectRelation = Box::new(move |wire, _| {
            runner.daemons.report_to(wire.queue.clone());
            if !runner.plan.listeners.is_empty() {
                wire.main.add_reader(runner.mailbox.clone());
            }
            wire.main.subscribe(move |delta| runner.observe(delta));
            wire.main.watch_freshness()
        });
        Relation { other: None, connect }
    }

    fn observe(&self, delta: &ObjectDelta) {
        if !self.plan.listeners.is_empty() {
            self.mailbox.post(delta);
        }
        if self.plan.only_listens() {
            return;
        }
        if delta.new.as_ref().is_none_or(|object| object.meta().deletion_timestamp.is_some()) {
            self.daemons.stop_all(&delta.key);
        }
        match (&delta.new, delta.change) {
            (None, _) => {
                self.memories().remove(&delta.key);
            }
            (Some(object), Change::Listed) => {
                let memory = HandlerMemory {
                    uid: object.meta().uid.clone(),
                    is_inherited: true,
                    ..HandlerMemory::default()
                };
                self.memories().insert(delta.key.clone(), memory);
            }
            _ => {}
        }
    }

    /// Runs every handler that is due, and returns when to check again.
    pub(super) async fn handle(&self, cx: Arc<ReconcileRun>) -> Result<Action> {
        let object = cx.object().clone();
        let memory = self.recall(&*object, cx.key());
        let is_dying = object.meta().deletion_timestamp.is_some();
        if is_dying {
            // A daemon must not recreate something that the deletion removes.
            self.daemons.stop_all_and_wait(cx.key()).await;
        }
        let mut run = HandlerRun::new(&self.plan, cx.clone(), object, memory);
        let rest = self.work(&mut run).await;
        if !is_dying {
            let (object, state) = run.object();
            let daemons = self.plan.daemons_of(object);
            let cache = &cx.controller().cache;
            let newest = || cache.get(cx.key());
            let is_alive = || newest().is_some_and(|object| object.meta().deletion_timestamp.is_none());
            let wanted = ObjectDaemons { uid: object.meta().uid.as_ref(), state, daemons: &daemons };
            self.daemons.set_wanted(cx.key(), wanted, is_alive);
        }
        self.remember(&cx, run.into_memory());
        let now = cx.now();
        Ok(match rest? {
            Rest::Until(Some(at)) => Action::requeue(duration_between(now, at)),
            Rest::Until(None) => Action::await_change(),
            Rest::Tired => Action::requeue_now(),
        })
    }

    async fn work(&self, run: &mut HandlerRun<'_>) -> Result<Rest> {
        run.open().await?;
        for _ in 0..STEPS_MAX {
            match run.next_step() {
                Step::Run(index) => run.run_handler(index).await?,
                Step::Adopt => run.adopt(),
                Step::Rest(at) => {
                    let (_, state) = run.object();
                    let daemons = self.daemons.given_up(run.key(), state);
                    let daemons = daemons.into_iter().map(|(daemon, error)| FailingHandler {
                        id: self.plan.daemons[daemon].id.clone(),
                        error,
                        gave_up: true,
                    });
                    run.close(at, daemons.collect()).await?;
                    return Ok(Rest::Until(at));
                }
            }
        }
        run.save().await?;
        Ok(Rest::Tired)
    }

    fn recall(&self, object: &Object, key: &Key) -> HandlerMemory {
        let uid = object.meta().uid.clone();
        let memory = self.memories().remove(key).filter(|memory| memory.uid == uid);
        memory.unwrap_or_else(|| HandlerMemory { uid, ..HandlerMemory::default() })
    }

    fn remember(&self, cx: &ReconcileRun, memory: HandlerMemory) {
        let mut memories = self.memories();
        // This read happens under the lock: the cache contains a deletion before it is reported, so the handler of that
        // report finds the entry to remove.
        let cache = &cx.controller().cache;
        if cache.get(cx.key()).is_some() {
            memories.insert(cx.key().clone(), memory);
        }
        // The deletion of an object that could no longer be decoded is not reported.
        if memories.len() > 2 * cache.len() + MEMORIES_SPARE {
            memories.retain(|key, _| cache.get(key).is_some() || cache.quarantined_error(key).is_some());
        }
    }

    fn memories(&self) -> MutexGuard<'_, HashMap<Key, HandlerMemory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason the run stops.
enum Rest {
    /// There is nothing to do until this time or until a change.
    Until(Option<Timestamp>),
    /// There may be more to do, but other objects have to run first.
    Tired,
}
