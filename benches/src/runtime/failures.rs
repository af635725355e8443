//! Measures one troubled object among many healthy ones: a reconciler that panics, a key that never rests, and ten
//! thousand reconciles that are all slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::controllers::{ControllerSetup, ReconcileFn, ReconcileResult, RuntimeKind};
use super::fake_server::FakeServer;
use crate::report::{ReportRow, ReportTarget};

/// The number of objects in addition to the one that panics.
const BYSTANDERS: usize = 1_000;

/// The number of keys in addition to the busy one, and of reconciles in flight.
const MANY: usize = 10_000;

/// How long each slow reconcile takes: with all of them in flight, all together should take this long.
const SLOW: Duration = Duration::from_secs(1);

/// Work that is not done by then does not count.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn measure() -> Vec<ReportRow> {
    vec![
        ReportRow::beside(
            "one reconciler panics: others of 1000 served afterwards",
            "objects",
            [survivors(RuntimeKind::Ours).await, survivors(RuntimeKind::Theirs).await],
            ReportTarget::AtLeast(1000.0),
        ),
        ReportRow::beside(
            "a hot key beside 10000 cold ones: all cold ones served",
            "ms",
            [cold(RuntimeKind::Ours).await, cold(RuntimeKind::Theirs).await],
            ReportTarget::TimesLess(1.0),
        ),
        ReportRow::beside(
            "10000 reconciles of 1 s in flight: all done",
            "ms",
            [slow(RuntimeKind::Ours).await, slow(RuntimeKind::Theirs).await],
            ReportTarget::TimesLess(1.0),
        ),
    ]
}

/// Returns how many objects are reconciled on an edit after another object's reconciler has panicked.
async fn survivors(side: RuntimeKind) -> f64 {
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let fake = FakeServer::new(BYSTANDERS + 1);
    let (sender, mut heard) = mpsc::unbounded_channel();
    let reconcile: ReconcileFn = Arc::new(move |name| {
        let sender = sender.clone();
        async move {
            assert!(name != "object-0", "on purpose");
            // The receiver is gone only when the measurement is over.
            let _ = sender.send(());
            ReconcileResult::Settled
        }
        .boxed()
    });
    let running = side.start(fake.client(), ControllerSetup::default(), reconcile);
    let mut count = async |limit: Duration| {
        let end = Instant::now() + limit;
        let mut count = 0_u32;
        while count < 1000 && tokio::time::timeout_at(end, heard.recv()).await.is_ok_and(|one| one.is_some())
        {
            count += 1;
        }
        count
    };
    count(Duration::from_secs(2)).await;
    (1..=BYSTANDERS).for_each(|number| fake.push(number));
    let count = count(Duration::from_secs(2)).await;
    running.end().await;
    std::panic::set_hook(silent);
    f64::from(count)
}

/// Returns the time until every idle key is reconciled while one key requeues itself immediately, forever.
async fn cold(side: RuntimeKind) -> f64 {
    timed(side, ControllerSetup::default(), |left| {
        Arc::new(move |name| {
            let left = left.clone();
            async move {
                if name == "object-0" {
                    return ReconcileResult::Again;
                }
                left.done();
                ReconcileResult::Settled
            }
            .boxed()
        })
    })
    .await
}

async fn slow(side: RuntimeKind) -> f64 {
    let limit = u16::try_from(MANY + 1).expect("fewer than 65 536");
    timed(side, ControllerSetup { concurrency: Some(limit), ..ControllerSetup::default() }, |left| {
        Arc::new(move |_| {
            let left = left.clone();
            async move {
                tokio::time::sleep(SLOW).await;
                left.done();
                ReconcileResult::Settled
            }
            .boxed()
        })
    })
    .await
}

/// The number of objects left, and a notification for the last one.
struct RemainingObjects {
    count: AtomicUsize,
    bell: Notify,
}

impl RemainingObjects {
    fn done(&self) {
        if self.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.bell.notify_one();
        }
    }
}

/// Returns the milliseconds until all but one of the objects are done.
async fn timed(
    side: RuntimeKind,
    setup: ControllerSetup<'_>,
    reconcile: impl FnOnce(Arc<RemainingObjects>) -> ReconcileFn,
) -> f64 {
    let fake = FakeServer::new(MANY + 1);
    let left = Arc::new(RemainingObjects { count: AtomicUsize::new(MANY), bell: Notify::new() });
    let start = Instant::now();
    let running = side.start(fake.client(), setup, reconcile(left.clone()));
    let _ = tokio::time::timeout(PATIENCE, left.bell.notified()).await;
    let elapsed = start.elapsed();
    running.end().await;
    elapsed.as_secs_f64() * 1000.0
}
