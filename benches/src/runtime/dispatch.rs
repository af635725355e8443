//! Reconciles per second if the reconciler does nothing: the cost of the queue, the workers and the bookkeeping.
//! Measured from the first to the last reconcile of N listed objects, all of them ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use homeostat_runtime::{Action, CancellationToken, Controller, Operator};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube_runtime::watcher;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fake_server::FakeServer;
use crate::report::{ReportRow, ReportTarget};

/// The numbers of keys: few, many, and more than any operator should have. The rate must not fall. Each has its number
/// of rounds, because a thousand keys take a millisecond, which is too short to measure a rate.
const KEYS: [(usize, u32); 3] = [(1_000, 50), (100_000, 2), (1_000_000, 1)];

/// A runtime that is not done this long after its first reconcile is judged by what it has done; reading a million
/// objects is not included in this time.
const PATIENCE: Duration = Duration::from_secs(20);
const READING_MAX: Duration = Duration::from_secs(60);

/// The slowest rate divided by the fastest. A thousand objects fit into the processor's caches and a million do not:
/// memory access halves the rate, and a queue that slows down with its keys would be far below that.
const FLAT: f64 = 0.5;

pub(super) async fn measure() -> Vec<ReportRow> {
    let mut rows = Vec::new();
    let mut rates = Vec::new();
    for (keys, rounds) in KEYS {
        let fake = FakeServer::new(keys);
        let (mut ours_took, mut theirs_took) = (ReconcileRate::default(), ReconcileRate::default());
        for _ in 0..rounds {
            ours_took.add(ours(fake.clone(), keys).await);
            theirs_took.add(theirs(fake.clone(), keys).await);
        }
        let figures = [ours_took.rate(), theirs_took.rate()];
        rates.push(figures[0]);
        let name = format!("dispatch, {keys} keys, reconcile does nothing");
        rows.push(ReportRow::beside(name, "reconciles/s", figures, ReportTarget::TimesMore(2.0)));
    }
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    rows.push(ReportRow::alone(
        "dispatch, slowest beside fastest of the above",
        "share",
        slowest / fastest,
        ReportTarget::AtLeast(FLAT),
    ));
    rows
}

/// The number of reconciles and how long they took, over all rounds.
#[derive(Default)]
struct ReconcileRate {
    reconciles: u32,
    seconds: f64,
}

impl ReconcileRate {
    fn add(&mut self, (reconciles, time): (u32, Duration)) {
        self.reconciles += reconciles;
        self.seconds += time.as_secs_f64();
    }

    fn rate(&self) -> f64 {
        f64::from(self.reconciles) / self.seconds
    }
}

/// Counts down to the last reconcile and remembers the time of the first.
struct ReconcileCounter {
    left: AtomicUsize,
    first: std::sync::OnceLock<Instant>,
    begun: Notify,
    done: Notify,
}

impl ReconcileCounter {
    fn new(keys: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(keys),
            first: std::sync::OnceLock::new(),
            begun: Notify::new(),
            done: Notify::new(),
        })
    }

    fn hit(&self) {
        self.first.get_or_init(|| {
            self.begun.notify_one();
            Instant::now()
        });
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
    }

    /// Returns how many reconciles there were, and the time from the first to the last or until the limit.
    async fn rate(&self, keys: usize) -> (u32, Duration) {
        let _ = tokio::time::timeout(READING_MAX, self.begun.notified()).await;
        let _ = tokio::time::timeout(PATIENCE, self.done.notified()).await;
        let done = keys - self.left.load(Ordering::Relaxed);
        let elapsed = self.first.get().map_or(PATIENCE, Instant::elapsed);
        (u32::try_from(done).expect("fewer than four billion keys"), elapsed)
    }
}

async fn ours(fake: FakeServer, keys: usize) -> (u32, Duration) {
    let count = ReconcileCounter::new(keys);
    let hit = count.clone();
    let control = Controller::<ConfigMap>::new().reconcile(move |_, _| {
        hit.hit();
        std::future::ready(Ok(Action::await_change()))
    });
    let stop = CancellationToken::new();
    let operator = tokio::spawn(
        Operator::new("bench.homeostat.dev").control(control).run_on(fake.client(), stop.clone()),
    );
    let rate = count.rate(keys).await;
    stop.cancel();
    operator.await.expect("no panic").expect("it ends well");
    rate
}

async fn theirs(fake: FakeServer, keys: usize) -> (u32, Duration) {
    let count = ReconcileCounter::new(keys);
    let hit = count.clone();
    let controller =
        kube_runtime::Controller::new(Api::<ConfigMap>::all(fake.client()), watcher::Config::default());
    let stream = controller.run(
        move |_, _| {
            hit.hit();
            std::future::ready(Ok::<_, std::io::Error>(kube_runtime::controller::Action::await_change()))
        },
        |_, _, _| kube_runtime::controller::Action::await_change(),
        Arc::new(()),
    );
    let drain = tokio::spawn(stream.for_each(|_| std::future::ready(())));
    let rate = count.rate(keys).await;
    drain.abort();
    rate
}
