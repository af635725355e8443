//! Daemons are tasks, one per object, that run outside the queue and do what neither events nor timers can do, such as
//! a long poll.
//!
//! The handler runner decides which daemons should run (filters, deletion). One supervisor per controller starts them,
//! owns their tasks and stops them: it asks them to stop and, after a grace period, cancels them at their next await.
//! **Invariant:** an object has at most one task for each daemon, and none unless this replica has the right to act on
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::{Cause, Entry, HandlerOutcome};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::authored_state::{Fingerprint, essence_of};
use super::declared_handlers::DeclaredHandlers;
use super::handled_condition;
use super::handler_context::{CallIdentity, HandlerContextState};
use crate::context::ReconcileRun;
use crate::fault::{Fault, Result};
use crate::fence::{FenceAnswer, Permit};
use crate::kind::object::ObjectTest;
use crate::queue::{Backoff, Outcome, Urgency};
use crate::shared::ControllerShared;
use crate::workers::controller_queue::ControllerQueue;

/// How long a daemon may take to stop: enough to finish a request, not a long poll.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A daemon that ran this long counts as healthy: earlier failures are forgotten.
const WELL_AFTER: Duration = Duration::from_secs(10 * 60);

/// A declared daemon.
pub(super) struct Daemon {
    pub(super) id: String,
    pub(super) filters: Vec<ObjectTest>,
    pub(super) backoff: Backoff,
    pub(super) grace: Duration,
    pub(super) call: DaemonCall,
}

/// A daemon's function.
pub(super) type DaemonCall =
    Arc<dyn Fn(Arc<HandlerContextState>) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// Identifies one object's daemon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DaemonKey {
    object: Key,
    /// The index of the daemon in the program.
    index: usize,
}

impl DaemonKey {
    /// Matches all daemons of an object.
    fn all_of(object: &Key) -> RangeInclusive<Self> {
        Self { object: object.clone(), index: 0 }..=Self { object: object.clone(), index: usize::MAX }
    }
}

/// A daemon task that has ended.
struct EndedDaemon {
    key: DaemonKey,
    how: DaemonEnd,
}

/// Which daemons should run, and which are running.
#[derive(Default)]
pub(super) struct DaemonSupervisor {
    table: Mutex<DaemonTable>,
    /// Wakes the supervisor.
    changed: Notify,
    /// Signals that a daemon has ended.
    ended: Notify,
    /// The queue that is notified when a daemon gives up, so that the object's status shows it.
    queue: OnceLock<ControllerQueue>,
}

#[derive(Default)]
struct DaemonTable {
    wanted: BTreeMap<DaemonKey, WantedDaemon>,
    running: BTreeMap<DaemonKey, CancellationToken>,
    /// The daemons that the supervisor has not checked yet.
    unseen: BTreeSet<DaemonKey>,
}

/// A daemon that should run.
#[derive(Clone, Debug, PartialEq)]
struct WantedDaemon {
    uid: Option<String>,
    /// The state of the object at the last check.
    state: Fingerprint,
    /// Set if it has ended and will not be started again, or only in another state.
    ended: Option<DaemonEnd>,
}

/// The daemons that should run for an object in this state.
#[derive(Clone, Copy)]
pub(super) struct ObjectDaemons<'a> {
    pub(super) uid: Option<&'a String>,
    pub(super) state: Fingerprint,
    /// Their indexes in the program.
    pub(super) daemons: &'a [usize],
}

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq)]
enum DaemonEnd {
    /// It was asked to stop.
    Stopped,
    /// It succeeded.
    Well,
    /// It gave up at this state because of this error.
    GaveUp(Fingerprint, String),
}

impl DaemonSupervisor {
    /// Starts these daemons for the object and stops all others. `is_alive` is called while the lock is held: the cache
    /// contains a deletion before it is reported, so either this call sees it, or the report stops the daemons that
    /// this call starts.
    pub(super) fn set_wanted(
        &self,
        key: &Key,
        ObjectDaemons { uid, state, daemons }: ObjectDaemons<'_>,
        is_alive: impl FnOnce() -> bool,
    ) {
        let mut table = self.table();
        if !is_alive() {
            return;
        }
        for post in table.daemons_of(key) {
            if !daemons.contains(&post.index) {
                table.wanted.remove(&post);
                table.unseen.insert(post);
            }
        }
        for &daemon in daemons {
            let post = DaemonKey { object: key.clone(), index: daemon };
            let known = table.wanted.get(&post).filter(|want| want.uid.as_ref() == uid);
            let ended = match known.and_then(|want| want.ended.clone()) {
                Some(DaemonEnd::GaveUp(at, _)) if at != state => None,
                ended => ended,
            };
            let want = WantedDaemon { uid: uid.cloned(), state, ended };
            if known != Some(&want) {
                table.wanted.insert(post.clone(), want);
                table.unseen.insert(post);
            }
        }
        self.wake(&table);
    }

    /// Sets the queue that is notified about daemons that gave up.
    pub(super) fn report_to(&self, queue: ControllerQueue) {
        // A controller is assembled only once.
        let _ = self.queue.set(queue);
    }

    /// Returns the daemons that gave up on the object in this state, and their errors.
    pub(super) fn given_up(&self, key: &Key, state: Fingerprint) -> Vec<(usize, String)> {
        let table = self.table();
        let wanted = table.wanted.range(DaemonKey::all_of(key));
        let given_up = wanted.filter_map(|(daemon, want)| match &want.ended {
            Some(DaemonEnd::GaveUp(at, error)) if *at == state => Some((daemon.index, error.clone())),
            _ => None,
        });
        given_up.collect()
    }

    /// Stops all daemons of the object.
    pub(super) fn stop_all(&self, key: &Key) {
        let mut table = self.table();
        for post in table.daemons_of(key) {
            table.wanted.remove(&post);
            table.unseen.insert(post);
        }
        self.wake(&table);
    }

    /// Stops all daemons of the object and waits until none is running.
    pub(super) async fn stop_all_and_wait(&self, key: &Key) {
        self.stop_all(key);
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.table().running.keys().any(|daemon| daemon.object == *key) {
                return;
            }
            ended.await;
        }
    }

    /// Runs the desired daemons until `stop`, then stops them all.
    pub(super) async fn supervise(
        &self,
        plan: Arc<DeclaredHandlers>,
        controller: Arc<ControllerShared>,
        stop: CancellationToken,
    ) {
        let mut tasks = JoinSet::new();
        let mut rights = controller.operator.fence.subscribe();
        while !stop.is_cancelled() {
            for post in self.take_unseen() {
                self.start_or_stop(&post, &plan, &controller, &mut tasks);
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.changed.notified() => {}
                Some(ended) = tasks.join_next() => self.note_end(ended.ok()),
                _ = rights.changed() => self.look_at_all(),
            }
        }
        self.table().running.values().for_each(CancellationToken::cancel);
        while let Some(ended) = tasks.join_next().await {
            self.note_end(ended.ok());
        }
    }

    /// Starts or stops a daemon as needed.
    fn start_or_stop(
        &self,
        post: &DaemonKey,
        plan: &Arc<DeclaredHandlers>,
        controller: &Arc<ControllerShared>,
        tasks: &mut JoinSet<EndedDaemon>,
    ) {
        let mut table = self.table();
        let is_wanted = table.wanted.get(post).is_some_and(|want| want.ended.is_none());
        let permit = match controller.operator.fence.enter(&post.object) {
            FenceAnswer::Granted(permit) if is_wanted => Some(permit),
            _ => None,
        };
        match (table.running.get(post), permit) {
            (Some(stop), None) => stop.cancel(),
            (None, Some(permit)) => {
                let Some(object) = controller.cache.get(&post.object) else { return };
                let stop = CancellationToken::new();
                table.running.insert(post.clone(), stop.clone());
                let claim = permit.claim().clone();
                let context = ReconcileRun::detached(controller.clone(), object, post.object.clone(), claim);
                let lapse = Lapse { permit, spare: controller.operator.fence.spare() };
                let life = run_daemon(post.index, plan.clone(), context, stop.clone());
                tasks.spawn(run_while_permitted(post.clone(), life, stop, lapse));
            }
            // A daemon that is stopping but is needed again is checked again when it has ended.
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn note_end(&self, ended: Option<EndedDaemon>) {
        // A panic in the task itself is our bug: panics in user code are caught inside it.
        let Some(EndedDaemon { key: post, how }) = ended else { return };
        let mut table = self.table();
        table.running.remove(&post);
        if let Some(want) = table.wanted.get_mut(&post) {
            // If it gave up on a state that has changed since, it is started again at once.
            let is_final =
                how != DaemonEnd::Stopped && !matches!(how, DaemonEnd::GaveUp(at, _) if at != want.state);
            want.ended = is_final.then_some(how);
            if matches!(want.ended, Some(DaemonEnd::GaveUp(..)))
                && let Some(queue) = self.queue.get()
            {
                queue.add(&post.object, Cause::Outside { source: "daemon".into() }, Urgency::Event);
            }
            table.unseen.insert(post);
        }
        self.wake(&table);
        self.ended.notify_waiters();
    }

    fn look_at_all(&self) {
        let mut table = self.table();
        let all: Vec<DaemonKey> = table.wanted.keys().chain(table.running.keys()).cloned().collect();
        table.unseen.extend(all);
    }

    fn take_unseen(&self) -> BTreeSet<DaemonKey> {
        std::mem::take(&mut self.table().unseen)
    }

    fn wake(&self, table: &DaemonTable) {
        if !table.unseen.is_empty() {
            self.changed.notify_one();
        }
    }

    fn table(&self) -> MutexGuard<'_, DaemonTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DaemonTable {
    /// Returns the daemons of an object that should run or are running.
    fn daemons_of(&self, key: &Key) -> BTreeSet<DaemonKey> {
        let range = DaemonKey::all_of(key);
        let running = self.running.range(range.clone()).map(|(post, _)| post);
        self.wanted.range(range).map(|(post, _)| post).chain(running).cloned().collect()
    }
}

/// The right to act, and how long a daemon may take to stop after it is lost.
struct Lapse {
    permit: Permit,
    spare: Duration,
}

/// Runs a daemon while this replica has the right to act. After that the daemon is asked to stop, and is dropped before
/// another replica can gain that right.
async fn run_while_permitted(
    key: DaemonKey,
    life: impl Future<Output = DaemonEnd>,
    stop: CancellationToken,
    Lapse { permit, spare }: Lapse,
) -> EndedDaemon {
    let lost = async {
        permit.ended().await;
        stop.cancel();
        tokio::time::sleep(spare).await;
    };
    tokio::select! {
        how = life => EndedDaemon { key, how },
        () = lost => EndedDaemon { key, how: DaemonEnd::Stopped },
    }
}

/// Runs a daemon, and again after each failure, until it succeeds, gives up or is asked to stop.
async fn run_daemon(
    index: usize,
    plan: Arc<DeclaredHandlers>,
    context: Arc<ReconcileRun>,
    stop: CancellationToken,
) -> DaemonEnd {
    let daemon = &plan.daemons[index];
    let mut failures = 0;
    loop {
        let clock = context.controller().operator.clock;
        let began = clock.instant();
        let object =
            context.controller().cache.get(context.key()).unwrap_or_else(|| context.object().clone());
        let state = Fingerprint::of_value(&essence_of(&*object));
        let attempt = failures + 1;
        let which = CallIdentity { id: daemon.id.clone(), attempt, since: context.now() };
        let turn = HandlerContextState::new(context.renew(object), which, stop.clone(), plan.lookups.clone());
        let Some(result) = run_once(daemon, turn).await else { return DaemonEnd::Stopped };
        let took = clock.since(began);
        failures = if took >= WELL_AFTER { 1 } else { failures + 1 };
        let delay = match result.as_ref().map_err(Fault::outcome) {
            Ok(()) | Err(Outcome::Terminal) => None,
            Err(Outcome::RetryAfter(delay)) => Some(delay),
            Err(_) => Some(daemon.backoff.delay(failures, &context.controller().operator.entropy)),
        };
        let error = result.err().map(|fault| handled_condition::shorten_error(&fault.chain()));
        record_attempt(
            &context,
            &FinishedAttempt { id: &daemon.id, attempt, error: error.as_deref(), delay, took },
        );
        let Some(delay) = delay else {
            return error.map_or(DaemonEnd::Well, |error| DaemonEnd::GaveUp(state, error));
        };
        if stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_none() {
            return DaemonEnd::Stopped;
        }
    }
}

/// Runs a daemon once; returns `None` if it was stopped, whether within its grace period or after it.
async fn run_once(daemon: &Daemon, turn: Arc<HandlerContextState>) -> Option<Result<()>> {
    let stop = turn.stop().clone();
    let life = async {
        let life = AssertUnwindSafe(async { (daemon.call)(turn.clone()).await }).catch_unwind().await;
        let result = life.unwrap_or_else(|panic| Err(Fault::from_panic(&*panic)));
        let written = turn.save_status().await;
        result?;
        Ok(written?)
    };
    let end_of_grace = async {
        stop.cancelled().await;
        tokio::time::sleep(daemon.grace).await;
    };
    tokio::select! {
        result = life => (!stop.is_cancelled()).then_some(result),
        () = end_of_grace => {
            tracing::warn!(object = %turn.key(), daemon = daemon.id, "a daemon did not stop in time and was ended");
            None
        }
    }
}

/// A finished attempt of a daemon.
struct FinishedAttempt<'a> {
    id: &'a str,
    attempt: u32,
    error: Option<&'a str>,
    /// The pause before the next attempt, if there is one.
    delay: Option<Duration>,
    took: Duration,
}

/// Reports an attempt in an event and in the journal.
fn record_attempt(context: &ReconcileRun, finished: &FinishedAttempt<'_>) {
    let FinishedAttempt { id, attempt, error, delay, took } = *finished;
    let controller = context.controller();
    let outcome = match (error.map(str::to_owned), delay) {
        (None, _) => HandlerOutcome::Done,
        (Some(error), Some(after)) => HandlerOutcome::Retry { after, error },
        (Some(error), None) => HandlerOutcome::GaveUp { error },
    };
    if let Some(error) = error {
        tracing::warn!(object = %context.key(), daemon = id, error, restart = ?delay, "daemon failed");
    }
    handled_condition::warn_of_outcome(context, id, attempt, &outcome);
    let (object, handler) = (context.key().clone(), id.to_owned());
    controller.operator.journal.record(&controller.source, Entry::Handled { object, handler, outcome, took });
}
