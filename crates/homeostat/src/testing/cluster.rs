//! Provides the cluster for a test: an API server on an in-memory store, a virtual clock, and the operators that run on
//! it.
//!
//! **Invariant:** everything runs on the test's single thread, with its virtual time and its seed, so a run repeats
//! exactly. Dropping the cluster aborts its tasks. There is no node: nothing runs Pods.
//!
//! The server may also be remote, in another process ([`Builder::server`]). In that case time moves in steps, and
//! between them the cluster waits until a number of probe requests have been answered without other traffic. The slower
//! the machine, the longer this takes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::preload::stored_objects;
use homeostat_core::journal::{Entry, Record};
use homeostat_core::{Clock, Entropy, Key};
use homeostat_runtime::{CancellationToken, Operator, PausedTime};
use homeostat_store::{Limits, Memory, SharedStore, Snapshot};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::faults::Faults;
use super::remote_times::RemoteTimes;
use super::running_operator::{OperatorEnd, RunningOperator};
use super::wire::{Wire, WireActivity};

/// The namespace for objects that name none.
pub(super) const NAMESPACE: &str = "default";

/// The default start time of a test: 2027-01-15T08:00:00Z, a Friday.
const START_SECOND: i64 = 1_800_000_000;

/// The default seed.
const SEED: u64 = 7;

/// After this long without activity, everything has settled: longer than any delay between a write and the reconcile
/// that follows it, shorter than the first retry of a failed reconcile (a second).
const QUIET: Duration = Duration::from_millis(500);

/// A cluster that has not settled by then never will: there was activity in each of about 600 consecutive half seconds.
const SETTLE_MAX: Duration = Duration::from_secs(300);

/// The number of records shown for an operator that does not settle.
const RECORDS_SHOWN: usize = 20;

/// With many watchers, the server batches events for a few milliseconds; this is longer than several such delays in a
/// row, and shorter than anything the runtime waits for.
const MOMENT: Duration = Duration::from_millis(25);

/// Shorter than anything the runtime waits for.
const INSTANT: Duration = Duration::from_millis(1);

/// The number of probe requests that a remote server must answer in a row, without other traffic, before it counts as
/// quiet. They read an object, so that they also reach a store behind the server.
const QUIET_QUESTIONS: u32 = 24;

/// The maximum number of steps in which a long time passes with a remote server.
const STEPS_MAX: u32 = 60;

/// A cluster for a test. See [the module](super) for an example.
pub struct Cluster {
    server: ServerLocation,
    client: Client,
    faults: Faults,
    clock: Clock,
    far: Option<RemoteTimes>,
    activity: Arc<WireActivity>,
    seed: u64,
    operators: Mutex<Vec<RunningOperator>>,
    tasks: Mutex<JoinSet<()>>,
}

/// The location of the API.
enum ServerLocation {
    Here { client: Client, store: SharedStore },
    Far(Client),
}

/// Configures a cluster.
#[derive(Clone)]
pub struct Builder {
    start: Timestamp,
    seed: u64,
    contents: Option<Snapshot>,
    server: Option<Client>,
}

/// The complete contents of a cluster at one point in time. Taking and keeping it costs nothing.
#[derive(Clone, Debug)]
pub struct ClusterSnapshot {
    contents: Snapshot,
    taken: Timestamp,
}

impl ClusterSnapshot {
    /// Returns all objects by key, including those that the server created at startup.
    pub fn objects(&self) -> Vec<(Key, Value)> {
        stored_objects(&self.contents)
    }
}

impl Builder {
    /// Sets the start time of the test (2027-01-15T08:00:00Z by default).
    #[must_use]
    pub fn start_at(mut self, start: Timestamp) -> Self {
        self.start = start;
        self
    }

    /// Draws uids, suffixes and jitter from this seed (a fixed one by default).
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Starts with the objects of another cluster, at the time of the snapshot.
    #[must_use]
    pub fn snapshot(mut self, snapshot: &ClusterSnapshot) -> Self {
        self.contents = Some(snapshot.contents.clone());
        self.start = snapshot.taken;
        self
    }

    /// Uses this client's API server instead of one in this process, such as your own kube-apiserver. Time is still
    /// virtual: it stands still while a request is in progress. Random values are the server's own. The client must
    /// have no timeouts and must not retry, because both would count in virtual time.
    #[must_use]
    pub fn server(mut self, client: Client) -> Self {
        self.server = Some(client);
        self
    }

    /// Starts the cluster. Once this returns, it serves requests.
    ///
    /// # Panics
    /// Panics outside a test with virtual time: write `#[tokio::test(start_paused = true)]`.
    pub fn start(self) -> BoxFuture<'static, Cluster> {
        // The future is boxed here, so that it is compiled here and not in every test.
        Box::pin(self.assemble())
    }

    async fn assemble(self) -> Cluster {
        assert!(
            is_time_paused(),
            "a testing::Cluster needs virtual time: write #[tokio::test(start_paused = true)]"
        );
        let clock = Clock::virtual_from(self.start);
        let mut tasks = JoinSet::new();
        let server = match self.server {
            Some(client) => ServerLocation::Far(client),
            None => serve(clock, self.seed, self.contents, &mut tasks).await,
        };
        let far = matches!(server, ServerLocation::Far(_)).then(|| RemoteTimes::new(clock));
        let (faults, activity) = (Faults::default(), Arc::<WireActivity>::default());
        let client = client_on(&server, Faults::default(), far.as_ref(), &activity);
        let (operators, tasks) = (Mutex::default(), Mutex::new(tasks));
        Cluster { server, client, faults, clock, far, activity, seed: self.seed, operators, tasks }
    }
}

impl Cluster {
    /// Starts an in-memory cluster.
    pub fn start() -> BoxFuture<'static, Self> {
        Self::builder().start()
    }

    /// Returns a builder, by default for an in-memory cluster.
    pub fn builder() -> Builder {
        let start = Timestamp::from_second(START_SECOND).expect("a second of this millennium");
        Builder { start, seed: SEED, contents: None, server: None }
    }

    /// Runs an operator, with the cluster's time and randomness, through its [`faults`](Self::faults). It stops
    /// together with the cluster.
    pub fn run(&self, operator: Operator) -> RunningOperator {
        self.run_through(&self.faults, operator)
    }

    /// Runs an operator with its own faults, such as one of several replicas.
    pub fn run_through(&self, faults: &Faults, operator: Operator) -> RunningOperator {
        let (client, stop) = (self.client_through(faults), CancellationToken::new());
        let mut operators = lock(&self.operators);
        let seed = self.seed + 1 + operators.len() as u64;
        let operator = operator.time_and_chance(self.clock, Entropy::seeded(seed));
        let (journal, records) = (operator.journal(), Arc::<Mutex<Vec<Record>>>::default());
        let (kept, activity) = (Arc::clone(&records), Arc::clone(&self.activity));
        journal.fold(move |record| {
            lock(&kept).push(record.clone());
            // A pass over a world is not work in itself; the work that it finds is recorded separately.
            if matches!(record.entry, Entry::Surveyed { .. }) {
                activity.add_traffic();
            } else {
                activity.add_work();
            }
        });
        let (sender, end) = watch::channel(OperatorEnd::NotYet);
        let running = operator.run_on(client, stop.clone());
        let task = lock(&self.tasks).spawn(async move {
            let result = running.await;
            sender.send_replace(OperatorEnd::Ended(result));
        });
        let running = RunningOperator { journal, records, stop, task, end };
        operators.push(running.clone());
        running
    }

    /// Waits until there is nothing left to do: no operator has done anything and nothing has been written for half a
    /// second of virtual time. Retries and requeues that are due later stay pending; [`pass`](Self::pass) advances time
    /// to them.
    ///
    /// # Panics
    /// Panics if an operator has exited on its own, or if activity continues for five minutes of virtual time.
    pub fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.settle_all())
    }

    async fn settle_all(&self) {
        let deadline = self.clock.instant() + SETTLE_MAX;
        loop {
            let before = self.work();
            self.pass_exactly(QUIET).await;
            self.check_operators();
            if self.work() == before {
                return;
            }
            assert!(self.clock.instant() < deadline, "the cluster does not settle:\n{}", self.last_records());
        }
    }

    /// Lets virtual time pass, which takes no real time, and runs everything that is due within it.
    pub fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.pass_exactly(time).await;
            self.rest().await;
        })
    }

    /// Waits until nothing more happens without advancing the clock: virtual time passes only when every task is
    /// waiting.
    async fn rest(&self) {
        self.quiet().await;
        tokio::time::sleep(MOMENT).await;
        self.quiet().await;
    }

    async fn pass_exactly(&self, time: Duration) {
        if time.is_zero() {
            return;
        }
        if self.far.is_none() {
            tokio::time::sleep(time).await;
            return;
        }
        // Earlier writes are still in transit, and must arrive before the time passes.
        self.quiet().await;
        let steps = u32::try_from(time.as_secs()).unwrap_or(STEPS_MAX).clamp(1, STEPS_MAX);
        for _ in 0..steps {
            let before = self.activity.traffic();
            tokio::time::sleep(time / steps).await;
            // Lets everything that is due at this moment start before the check.
            tokio::time::sleep(INSTANT).await;
            if self.activity.traffic() != before {
                self.quiet().await;
            }
        }
    }

    /// With a remote server, waits until there has been no traffic for a while.
    async fn quiet(&self) {
        let ServerLocation::Far(direct) = &self.server else { return };
        let _held = PausedTime::new();
        let namespaces: Api<Namespace> = Api::all(direct.clone());
        let (mut before, mut questions) = (0, 0);
        while questions < QUIET_QUESTIONS {
            let asked = namespaces.get_metadata(NAMESPACE).await;
            asked.unwrap_or_else(|error| panic!("the server does not answer: {error}"));
            let passed = self.activity.traffic();
            questions = if passed == before { questions + 1 } else { 0 };
            before = passed;
        }
    }

    /// Returns a number that increases with every action.
    fn work(&self) -> u64 {
        let written = match &self.server {
            ServerLocation::Here { store, .. } => store.snapshot().revision().get(),
            ServerLocation::Far(_) => 0,
        };
        self.activity.work() + written
    }

    fn check_operators(&self) {
        for operator in lock(&self.operators).iter() {
            if let Some(why) = operator.unexpected_end() {
                panic!("an operator has ended by itself: {why}");
            }
        }
    }

    fn last_records(&self) -> String {
        let operators = lock(&self.operators);
        let last = operators.iter().flat_map(|operator| {
            let records = operator.records();
            let from = records.len().saturating_sub(RECORDS_SHOWN);
            records[from..].iter().map(|record| format!("{record:?}\n")).collect::<Vec<_>>()
        });
        last.collect()
    }

    /// Returns the faults between the API server and the operators started with [`run`](Self::run). There are none by
    /// default.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns a client for the test itself, whose requests are not subject to faults.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client whose requests are subject to these faults.
    pub fn client_through(&self, faults: &Faults) -> Client {
        client_on(&self.server, faults.clone(), self.far.as_ref(), &self.activity)
    }

    /// Returns kube's `Api` for one kind in the namespace `default`, for operations that the cluster has no method for.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), NAMESPACE)
    }

    /// Returns the cluster's clock, for anything else that the test runs.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Drops the history of the API server, so that only a new list can fill the gap after an interrupted watch.
    ///
    /// # Panics
    /// Panics with a remote server, which cannot be controlled.
    pub fn forget_history(&self) -> BoxFuture<'_, ()> {
        let store = self.store();
        let revision = store.snapshot().revision();
        let forgotten = store.compact(revision);
        Box::pin(async move { forgotten.await.expect("the newest revision is not in the future") })
    }

    /// Captures the current contents of the cluster, at no cost. [`Builder::snapshot`] starts another cluster with it,
    /// without operators.
    ///
    /// # Panics
    /// Panics with a remote server, whose store is out of reach.
    pub fn snapshot(&self) -> ClusterSnapshot {
        ClusterSnapshot { contents: self.store().snapshot(), taken: self.now() }
    }

    fn store(&self) -> &SharedStore {
        match &self.server {
            ServerLocation::Here { store, .. } => store,
            ServerLocation::Far(_) => panic!("the store of a server in another process is out of reach"),
        }
    }
}

/// Returns a client that reaches the server through a simulated wire.
fn client_on(
    server: &ServerLocation,
    faults: Faults,
    far: Option<&RemoteTimes>,
    activity: &Arc<WireActivity>,
) -> Client {
    let (ServerLocation::Here { client, .. } | ServerLocation::Far(client)) = server;
    Client::new(Wire::new(client.clone(), faults, far.cloned(), Arc::clone(activity)), NAMESPACE)
}

/// Starts a server in this process.
async fn serve(
    clock: Clock,
    seed: u64,
    contents: Option<Snapshot>,
    tasks: &mut JoinSet<()>,
) -> ServerLocation {
    let store: SharedStore = Arc::new(match contents {
        Some(contents) => Memory::holding(contents, clock, Limits::default()),
        None => Memory::with(clock, Limits::default()),
    });
    let builder = ApiServer::builder(Arc::clone(&store)).clock(clock).entropy(Entropy::seeded(seed));
    let (server, keeper) = builder.build().await.expect("a store in memory takes the first objects");
    tasks.spawn(keeper.run(CancellationToken::new()));
    ServerLocation::Here { client: Client::new(server, NAMESPACE), store }
}

/// Returns whether time stands still while nothing waits for it. tokio does not say, so this observes it for a moment.
#[expect(clippy::disallowed_methods, reason = "real time is what virtual time is told apart from")]
fn is_time_paused() -> bool {
    let (before, real) = (tokio::time::Instant::now(), std::time::Instant::now());
    while real.elapsed() < Duration::from_micros(50) {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == before
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
