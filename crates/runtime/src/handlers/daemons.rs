//! Daemons: a task for each object, beside the queue, for what neither events nor timers tell, such as a long poll.
//!
//! Which should run is decided by the handler runner (filters, deletion); one supervisor per controller makes it so, owns the tasks,
//! and ends them: first the word to stop, then, after the grace, they are dropped where they wait. **Invariant:** an
//! object has at most one task of each daemon, and none without the right to act on it.

use std::collections::{BTreeMap, BTreeSet};
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
use crate::controller_queue::ControllerQueue;
use crate::engine::{Engine, Test, words_of};
use crate::fault::{Fault, Result};
use crate::fence::{Admission, Permit};
use crate::queue::{Backoff, Outcome, Urgency};

/// How long a daemon may take to end when told to stop: a request under way, not a long poll.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// A daemon that ran for this long was well: its failures before no longer count.
const WELL_AFTER: Duration = Duration::from_secs(10 * 60);

/// A declared daemon.
pub(super) struct Daemon {
    pub(super) id: String,
    pub(super) filters: Vec<Test>,
    pub(super) backoff: Backoff,
    pub(super) grace: Duration,
    pub(super) call: DaemonCall,
}

/// A daemon's function.
pub(super) type DaemonCall = Arc<dyn Fn(Arc<TurnState>) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// A daemon of an object: the place in the program of the one, the key of the other.
type DaemonKey = (Key, usize);

/// Who should run and who does.
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

/// How a daemon ended.
#[derive(Clone, Debug, PartialEq)]
enum DaemonEnd {
    /// It was told to.
    Stopped,
    /// It has done its work.
    Well,
    /// It gave up at this state, over this error.
    GaveUp(Fingerprint, String),
}

impl DaemonSupervisor {
    /// These daemons, and no others, should run for the object in this state. `is_alive` is asked under our lock: a
    /// deletion is told after the cache has it, so either we see it here, or it dismisses what we want.
    pub(super) fn want(
        &self,
        (key, uid): (&Key, Option<&String>),
        state: Fingerprint,
        daemons: &[usize],
        is_alive: impl FnOnce() -> bool,
    ) {
        let mut table = self.table();
        if !is_alive() {
            return;
        }
        for post in table.posts(key) {
            if !daemons.contains(&post.1) {
                table.wanted.remove(&post);
                table.unseen.insert(post);
            }
        }
        for &daemon in daemons {
            let post = (key.clone(), daemon);
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

    /// Says from now on where a daemon gave up.
    pub(super) fn report_to(&self, queue: ControllerQueue) {
        // A controller is wired once.
        let _ = self.queue.set(queue);
    }

    /// The daemons that gave up on the object in this state, and why.
    pub(super) fn given_up(&self, key: &Key, state: Fingerprint) -> Vec<(usize, String)> {
        let table = self.table();
        let wanted = table.wanted.range((key.clone(), 0)..=(key.clone(), usize::MAX));
        let given_up = wanted.filter_map(|((_, daemon), want)| match &want.ended {
            Some(DaemonEnd::GaveUp(at, error)) if *at == state => Some((*daemon, error.clone())),
            _ => None,
        });
        given_up.collect()
    }

    /// None should run for the object.
    pub(super) fn dismiss(&self, key: &Key) {
        let mut table = self.table();
        for post in table.posts(key) {
            table.wanted.remove(&post);
            table.unseen.insert(post);
        }
        self.wake(&table);
    }

    /// Waits until none runs for the object.
    pub(super) async fn dismissed(&self, key: &Key) {
        self.dismiss(key);
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.table().running.keys().any(|(other, _)| other == key) {
                return;
            }
            ended.await;
        }
    }

    /// Runs who should run until `stop`, then ends them all.
    pub(super) async fn supervise(&self, plan: Arc<Plan>, engine: Arc<Engine>, stop: CancellationToken) {
        let mut tasks = JoinSet::new();
        let mut rights = engine.shared.fence.subscribe();
        while !stop.is_cancelled() {
            for post in self.take_unseen() {
                self.attend(&post, &plan, &engine, &mut tasks);
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

    /// Starts or stops a daemon as it should be.
    fn attend(
        &self,
        post: &DaemonKey,
        plan: &Arc<Plan>,
        engine: &Arc<Engine>,
        tasks: &mut JoinSet<(DaemonKey, DaemonEnd)>,
    ) {
        let mut table = self.table();
        let is_wanted = table.wanted.get(post).is_some_and(|want| want.ended.is_none());
        let permit = match engine.shared.fence.enter(&post.0) {
            Admission::Granted(permit) if is_wanted => Some(permit),
            _ => None,
        };
        match (table.running.get(post), permit) {
            (Some(stop), None) => stop.cancel(),
            (None, Some(permit)) => {
                let Some(object) = engine.cache.get(&post.0) else { return };
                let stop = CancellationToken::new();
                table.running.insert(post.clone(), stop.clone());
                let claim = permit.claim().clone();
                let context = Run::detached(engine.clone(), object, post.0.clone(), claim);
                let spare = engine.shared.fence.spare();
                let life = tend(post.clone(), plan.clone(), context, stop.clone());
                tasks.spawn(tend_while_permitted(post.clone(), life, stop, (permit, spare)));
            }
            // One that was told to stop while it is wanted again is looked at when it has ended.
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn note_end(&self, ended: Option<(DaemonKey, DaemonEnd)>) {
        // A task that panicked is our bug: it is ours to tend, and users' panics end inside.
        let Some((post, how)) = ended else { return };
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
                queue.add(&post.0, Cause::Outside { source: "daemon".into() }, Urgency::Event);
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
    /// The daemons of an object that are wanted or running.
    fn posts(&self, key: &Key) -> BTreeSet<DaemonKey> {
        let range = (key.clone(), 0)..=(key.clone(), usize::MAX);
        let running = self.running.range(range.clone()).map(|(post, _)| post);
        self.wanted.range(range).map(|(post, _)| post).chain(running).cloned().collect()
    }
}

/// A daemon that loses its right is told to stop, and dropped before the right can be another's.
async fn tend_while_permitted(
    post: DaemonKey,
    life: impl Future<Output = (DaemonKey, DaemonEnd)>,
    stop: CancellationToken,
    (permit, spare): (Permit, Duration),
) -> (DaemonKey, DaemonEnd) {
    let lost = async {
        permit.ended().await;
        stop.cancel();
        tokio::time::sleep(spare).await;
    };
    tokio::select! {
        ended = life => ended,
        () = lost => (post, DaemonEnd::Stopped),
    }
}

/// Runs a daemon, again when it fails, until it is through or told to stop.
async fn tend(
    post: DaemonKey,
    plan: Arc<Plan>,
    context: Arc<Run>,
    stop: CancellationToken,
) -> (DaemonKey, DaemonEnd) {
    let daemon = &plan.daemons[post.1];
    let mut failures = 0;
    loop {
        let clock = context.engine().shared.clock;
        let began = clock.instant();
        let object = context.engine().cache.get(context.key()).unwrap_or_else(|| context.object().clone());
        let state = Fingerprint::of_value(&essence_of(&*object));
        let attempt = failures + 1;
        let which = Which { id: daemon.id.clone(), attempt, since: context.now() };
        let turn = TurnState::new(context.renew(object), which, stop.clone(), plan.lookups.clone());
        let Some(result) = live_once(daemon, turn).await else { return (post, DaemonEnd::Stopped) };
        let took = clock.since(began);
        failures = if took >= WELL_AFTER { 1 } else { failures + 1 };
        let delay = match result.as_ref().map_err(Fault::outcome) {
            Ok(()) | Err(Outcome::Terminal) => None,
            Err(Outcome::RetryAfter(delay)) => Some(delay),
            Err(_) => Some(daemon.backoff.delay(failures, &context.engine().shared.entropy)),
        };
        let error = result.err().map(|fault| handled_condition::brief(&fault.chain()));
        note(&context, (&daemon.id, attempt), error.as_deref(), delay, took);
        let Some(delay) = delay else {
            return (post, error.map_or(DaemonEnd::Well, |error| DaemonEnd::GaveUp(state, error)));
        };
        if stop.run_until_cancelled(tokio::time::sleep(delay)).await.is_none() {
            return (post, DaemonEnd::Stopped);
        }
    }
}

/// One life of a daemon; none when it was stopped, in its grace or after.
async fn live_once(daemon: &Daemon, turn: Arc<TurnState>) -> Option<Result<()>> {
    let stop = turn.stop().clone();
    let life = async {
        let life = AssertUnwindSafe(async { (daemon.call)(turn.clone()).await }).catch_unwind().await;
        let result = life.unwrap_or_else(|panic| Err(Fault::panic(words_of(&*panic))));
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

fn note(
    context: &Run,
    (id, attempt): (&str, u32),
    error: Option<&str>,
    delay: Option<Duration>,
    took: Duration,
) {
    let engine = context.engine();
    let outcome = match (error.map(str::to_owned), delay) {
        (None, _) => HandlerOutcome::Done,
        (Some(error), Some(after)) => HandlerOutcome::Retry { after, error },
        (Some(error), None) => HandlerOutcome::GaveUp { error },
    };
    if let Some(error) = error {
        tracing::warn!(object = %context.key(), daemon = id, error, restart = ?delay, "daemon failed");
    }
    handled_condition::warn(context, id, attempt, &outcome);
    let (object, handler) = (context.key().clone(), id.to_owned());
    engine.shared.journal.record(&engine.source, Entry::Handled { object, handler, outcome, took });
}
