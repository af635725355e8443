//! Daemons: a task for each object, beside the queue, for what neither events nor timers can do, such as a long poll.
//!
//! Which should run is decided by the handler runner (filters, deletion); one supervisor per controller makes it so,
//! owns the tasks, and ends them: first they are told to stop, then, after the grace, they are cancelled at their next
//! await. **Invariant:** an object has at most one task of each daemon, and none without the right to act on it.

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

use super::essence::{Fingerprint, essence_of};
use super::handled_condition;
use super::plan::Plan;
use super::turn::{TurnState, Which};
use crate::context::Run;
use crate::fault::{Fault, Result};
use crate::fence::{FenceAnswer, Permit};
use crate::kind::object::ObjectTest;
use crate::queue::{Backoff, Outcome, Urgency};
use crate::shared::ControllerShared;
use crate::workers::controller_queue::ControllerQueue;

/// How long a daemon may take to end when told to stop: a request under way, not a long poll.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A daemon that ran for this long was well: its failures before no longer count.
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
pub(super) type DaemonCall = Arc<dyn Fn(Arc<TurnState>) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// A daemon of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct DaemonKey {
    object: Key,
    /// The place of the daemon in the program.
    index: usize,
}

impl DaemonKey {
    /// Covers all daemons of an object.
    fn all_of(object: &Key) -> RangeInclusive<Self> {
        Self { object: object.clone(), index: 0 }..=Self { object: object.clone(), index: usize::MAX }
    }
}

/// The end of a daemon's task.
struct EndedDaemon {
    key: DaemonKey,
    how: DaemonEnd,
}

/// Which daemons should run and which do.
#[derive(Default)]
pub(super) struct DaemonSupervisor {
    table: Mutex<DaemonTable>,
    /// There is something for the supervisor to do.
    changed: Notify,
    /// A daemon has ended.
    ended: Notify,
    /// Where to say that an object's daemon gave up: its status should.
    queue: OnceLock<ControllerQueue>,
}

#[derive(Default)]
struct DaemonTable {
    wanted: BTreeMap<DaemonKey, WantedDaemon>,
    running: BTreeMap<DaemonKey, CancellationToken>,
    /// What the supervisor has not looked at yet.
    unseen: BTreeSet<DaemonKey>,
}

/// A daemon that should run.
#[derive(Clone, Debug, PartialEq)]
struct WantedDaemon {
    uid: Option<String>,
    /// The object's state when last looked at.
    state: Fingerprint,
    /// It ended and is not started again, or only at another state.
    ended: Option<DaemonEnd>,
}

/// The daemons that should run for an object in this state.
#[derive(Clone, Copy)]
pub(super) struct ObjectDaemons<'a> {
    pub(super) uid: Option<&'a String>,
    pub(super) state: Fingerprint,
    /// Their places in the program.
    pub(super) daemons: &'a [usize],
}

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq)]
enum DaemonEnd {
    /// It was told to.
    Stopped,
    /// It succeeded.
    Well,
    /// It gave up at this state because of this error.
    GaveUp(Fingerprint, String),
}

impl DaemonSupervisor {
    /// Makes these daemons, and no others, run for the object. `is_alive` is called under our lock: a deletion is reported
    /// after the cache has it, so either we see it here, or it stops what we start.
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

    /// Sets the queue that hears of daemons that gave up.
    pub(super) fn report_to(&self, queue: ControllerQueue) {
        // A controller is wired once.
        let _ = self.queue.set(queue);
    }

    /// Returns the daemons that gave up on the object in this state, and why.
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

    /// Stops all daemons of the object and waits until none runs.
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

    /// Runs the daemons that should run until `stop`, then ends them all.
    pub(super) async fn supervise(
        &self,
        plan: Arc<Plan>,
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

    /// Starts or stops a daemon as wanted.
    fn start_or_stop(
        &self,
        post: &DaemonKey,
        plan: &Arc<Plan>,
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
                let context = Run::detached(controller.clone(), object, post.object.clone(), claim);
                let lapse = Lapse { permit, spare: controller.operator.fence.spare() };
                let life = run_daemon(post.index, plan.clone(), context, stop.clone());
                tasks.spawn(run_while_permitted(post.clone(), life, stop, lapse));
            }
            // One that was told to stop while it is wanted again is looked at when it has ended.
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn note_end(&self, ended: Option<EndedDaemon>) {
        // A task that panicked is our bug, because panics of the user's code are caught inside.
        let Some(EndedDaemon { key: post, how }) = ended else { return };
        let mut table = self.table();
        table.running.remove(&post);
        if let Some(want) = table.wanted.get_mut(&post) {
            // One that gave up at a state the object has left meanwhile is started again at once.
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
    /// Returns the daemons of an object that are wanted or running.
    fn daemons_of(&self, key: &Key) -> BTreeSet<DaemonKey> {
        let range = DaemonKey::all_of(key);
        let running = self.running.range(range.clone()).map(|(post, _)| post);
        self.wanted.range(range).map(|(post, _)| post).chain(running).cloned().collect()
    }
}

/// The right to run, and how long a daemon may take to end after it is lost.
struct Lapse {
    permit: Permit,
    spare: Duration,
}

/// Runs a daemon while it has the right to act. One that loses it is told to stop, and dropped before another replica
/// can have it.
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

/// Runs a daemon, again when it fails, until it succeeds, gives up or is told to stop.
async fn run_daemon(index: usize, plan: Arc<Plan>, context: Arc<Run>, stop: CancellationToken) -> DaemonEnd {
    let daemon = &plan.daemons[index];
    let mut failures = 0;
    loop {
        let clock = context.controller().operator.clock;
        let began = clock.instant();
        let object =
            context.controller().cache.get(context.key()).unwrap_or_else(|| context.object().clone());
        let state = Fingerprint::of_value(&essence_of(&*object));
        let attempt = failures + 1;
        let which = Which { id: daemon.id.clone(), attempt, since: context.now() };
        let turn = TurnState::new(context.renew(object), which, stop.clone(), plan.lookups.clone());
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

/// Runs a daemon once; returns none when it was stopped, within its grace or after.
async fn run_once(daemon: &Daemon, turn: Arc<TurnState>) -> Option<Result<()>> {
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

/// One attempt of a daemon that has ended.
struct FinishedAttempt<'a> {
    id: &'a str,
    attempt: u32,
    error: Option<&'a str>,
    /// The pause before the next attempt; none if there is none.
    delay: Option<Duration>,
    took: Duration,
}

/// Reports an attempt to people and to the journal.
fn record_attempt(context: &Run, finished: &FinishedAttempt<'_>) {
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
