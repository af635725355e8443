//! One object in trouble beside many that are not: a reconciler that panics, a key that never rests, and ten thousand
//! reconciles that all take their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::fake::Fake;
use super::side::{Deed, Reply, Setup, Side};
use crate::report::{Row, Target};

/// Objects beside the one that panics.
const BYSTANDERS: usize = 1_000;

/// Keys beside the hot one, and reconciles in flight.
const MANY: usize = 10_000;

/// How long each slow reconcile takes: with all of them in flight, so long should it all take.
const SLOW: Duration = Duration::from_secs(1);

/// What is not done by then does not count as done.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn measure() -> Vec<Row> {
    vec![
        Row::beside(
            "one reconciler panics: others of 1000 served afterwards",
            "objects",
            [survivors(Side::Ours).await, survivors(Side::Theirs).await],
            Target::AtLeast(1000.0),
        ),
        Row::beside(
            "a hot key beside 10000 cold ones: all cold ones served",
            "ms",
            [cold(Side::Ours).await, cold(Side::Theirs).await],
            Target::TimesLess(1.0),
        ),
        Row::beside(
            "10000 reconciles of 1 s in flight: all done",
            "ms",
            [slow(Side::Ours).await, slow(Side::Theirs).await],
            Target::TimesLess(1.0),
        ),
    ]
}

/// How many objects are reconciled on an edit after another object's reconciler has panicked.
async fn survivors(side: Side) -> f64 {
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let fake = Fake::new(BYSTANDERS + 1);
    let (sender, mut heard) = mpsc::unbounded_channel();
    let deed: Deed = Arc::new(move |name| {
        let sender = sender.clone();
        async move {
            assert!(name != "object-0", "on purpose");
            // The receiver is gone only when the measurement is over.
            let _ = sender.send(());
            Reply::Settled
        }
        .boxed()
    });
    let running = side.start(fake.client(), Setup::default(), deed);
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

/// The time until every cold key is reconciled beside one that asks again at once, for ever.
async fn cold(side: Side) -> f64 {
    timed(side, Setup::default(), |left| {
        Arc::new(move |name| {
            let left = left.clone();
            async move {
                if name == "object-0" {
                    return Reply::Again;
                }
                left.done();
                Reply::Settled
            }
            .boxed()
        })
    })
    .await
}

async fn slow(side: Side) -> f64 {
    let limit = u16::try_from(MANY + 1).expect("fewer than 65 536");
    timed(side, Setup { concurrency: Some(limit), ..Setup::default() }, |left| {
        Arc::new(move |_| {
            let left = left.clone();
            async move {
                tokio::time::sleep(SLOW).await;
                left.done();
                Reply::Settled
            }
            .boxed()
        })
    })
    .await
}

/// How many are left, and a bell for the last.
struct Left {
    count: AtomicUsize,
    bell: Notify,
}

impl Left {
    fn done(&self) {
        if self.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.bell.notify_one();
        }
    }
}

/// Milliseconds until all but one of the objects are done.
async fn timed(side: Side, setup: Setup<'_>, deed: impl FnOnce(Arc<Left>) -> Deed) -> f64 {
    let fake = Fake::new(MANY + 1);
    let left = Arc::new(Left { count: AtomicUsize::new(MANY), bell: Notify::new() });
    let start = Instant::now();
    let running = side.start(fake.client(), setup, deed(left.clone()));
    let _ = tokio::time::timeout(PATIENCE, left.bell.notified()).await;
    let elapsed = start.elapsed();
    running.end().await;
    elapsed.as_secs_f64() * 1000.0
}
