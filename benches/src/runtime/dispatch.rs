//! Reconciles per second when the reconciler does nothing: the price of the queue, the workers and the bookkeeping.
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

use super::fake::Fake;
use super::report::Row;

/// Few, many, and more than any operator should have: the rate must not fall.
const KEYS: [usize; 3] = [1_000, 100_000, 1_000_000];

/// Who is not done by then is judged by what it did.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure() -> Vec<Row> {
    let mut rows = Vec::new();
    for keys in KEYS {
        rows.push(row(keys).await);
    }
    rows
}

async fn row(keys: usize) -> Row {
    let fake = Fake::new(keys);
    Row {
        name: format!("dispatch, {keys} keys, reconcile does nothing"),
        unit: "reconciles/s",
        ours: ours(fake.clone(), keys).await,
        theirs: Some(theirs(fake, keys).await),
        more_is_better: true,
    }
}

/// Counts to the last reconcile and remembers when the first was.
struct Count {
    left: AtomicUsize,
    first: std::sync::OnceLock<Instant>,
    done: Notify,
}

impl Count {
    fn new(keys: usize) -> Arc<Self> {
        Arc::new(Self {
            left: AtomicUsize::new(keys),
            first: std::sync::OnceLock::new(),
            done: Notify::new(),
        })
    }

    fn hit(&self) {
        self.first.get_or_init(Instant::now);
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.done.notify_one();
        }
    }

    /// Reconciles per second, from the first to the last or until patience ends.
    async fn rate(&self, keys: usize) -> f64 {
        let _ = tokio::time::timeout(PATIENCE, self.done.notified()).await;
        let done = keys - self.left.load(Ordering::Relaxed);
        let elapsed = self.first.get().map_or(PATIENCE, Instant::elapsed);
        f64::from(u32::try_from(done).expect("fewer than four billion keys")) / elapsed.as_secs_f64()
    }
}

async fn ours(fake: Fake, keys: usize) -> f64 {
    let count = Count::new(keys);
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

async fn theirs(fake: Fake, keys: usize) -> f64 {
    let count = Count::new(keys);
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
