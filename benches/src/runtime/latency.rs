//! How long from a watch event to the reconcile it triggers, beside 10 000 cached objects that rest: first when all is
//! well, then while one of seven watches fails.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::controllers::{ControllerSetup, ReconcileFn, ReconcileResult, RuntimeKind};
use super::fake_server::FakeServer;
use crate::report::{ReportRow, ReportTarget};

const OBJECTS: usize = 10_000;

/// Events when all is well: one after the other, each waited for.
const EVENTS: usize = 2_000;

/// Events while a watch fails: one each fiftieth of a second, waited for or not.
const SPACED_EVENTS: usize = 200;
const SPACE: Duration = Duration::from_millis(50);

/// An event not heard of by then is counted with this.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn measure() -> Vec<ReportRow> {
    let well = [latencies(RuntimeKind::Ours, false).await, latencies(RuntimeKind::Theirs, false).await];
    let ill = [latencies(RuntimeKind::Ours, true).await, latencies(RuntimeKind::Theirs, true).await];
    let row = |name: &str, both: &[Vec<Duration>; 2], share| {
        let figures = both.each_ref().map(|times| quantile(times, share));
        ReportRow::beside(name, "ms", figures, ReportTarget::TimesLess(1.0))
    };
    vec![
        row("trigger to reconcile, p50", &well, 0.5),
        row("trigger to reconcile, p99", &well, 0.99),
        row("trigger to reconcile, one of seven watches fails, p50", &ill, 0.5),
        row("trigger to reconcile, one of seven watches fails, p99", &ill, 0.99),
    ]
}

pub(super) fn quantile(times: &[Duration], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "an index of a few thousand, rounded down"
    )]
    let at = ((times.len() - 1) as f64 * share) as usize;
    times[at].as_secs_f64() * 1000.0
}

/// A controller that reports which object it reconciles, with all objects reconciled once.
pub(super) async fn reporting(
    side: RuntimeKind,
    fake: &FakeServer,
    setup: ControllerSetup<'_>,
    objects: usize,
) -> ReportingController {
    let (sender, heard) = mpsc::unbounded_channel();
    let reconcile: ReconcileFn = Arc::new(move |name| {
        // The receiver is gone only when the measurement is over.
        let _ = sender.send((name, Instant::now()));
        std::future::ready(ReconcileResult::Settled).boxed()
    });
    let running = side.start(fake.client(), setup, reconcile);
    let mut reporting = ReportingController { running, heard };
    for _ in 0..objects {
        reporting.next(PATIENCE).await;
    }
    while !fake.is_watched() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    reporting
}

/// A running controller and what it reports.
pub(super) struct ReportingController {
    pub(super) running: super::controllers::RunningController,
    heard: mpsc::UnboundedReceiver<(String, Instant)>,
}

impl ReportingController {
    /// The next reconcile, if one comes in time.
    pub(super) async fn next(&mut self, patience: Duration) -> Option<(String, Instant)> {
        tokio::time::timeout(patience, self.heard.recv()).await.ok().flatten()
    }
}

/// The times of all events, in order of length.
async fn latencies(side: RuntimeKind, is_ill: bool) -> Vec<Duration> {
    let fake = FakeServer::with(OBJECTS, is_ill.then_some("/secrets"));
    let setup = ControllerSetup { with_children: true, ..ControllerSetup::default() };
    let mut reporting = reporting(side, &fake, setup, OBJECTS).await;
    let mut times =
        if is_ill { spaced(&fake, &mut reporting).await } else { one_by_one(&fake, &mut reporting).await };
    reporting.running.end().await;
    times.sort_unstable();
    times
}

async fn one_by_one(fake: &FakeServer, reporting: &mut ReportingController) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in 0..EVENTS {
        let start = Instant::now();
        fake.push(number);
        let heard = reporting.next(PATIENCE).await;
        times.push(heard.map_or(PATIENCE, |(_, at)| at - start));
    }
    times
}

async fn spaced(fake: &FakeServer, reporting: &mut ReportingController) -> Vec<Duration> {
    let start = Instant::now();
    let mut sent = Vec::new();
    for number in 0..SPACED_EVENTS {
        tokio::time::sleep_until(start + SPACE * u32::try_from(number).expect("a few hundred")).await;
        sent.push(Instant::now());
        fake.push(number);
    }
    let mut times = vec![PATIENCE; SPACED_EVENTS];
    let end = Instant::now() + PATIENCE;
    while let Some((name, at)) = reporting.next(end.saturating_duration_since(Instant::now())).await {
        let number = name.strip_prefix("object-").and_then(|number| number.parse::<usize>().ok());
        let Some(number) = number.filter(|number| *number < SPACED_EVENTS) else { continue };
        times[number] = times[number].min(at - sent[number]);
        if times.iter().all(|time| *time < PATIENCE) {
            break;
        }
    }
    times
}
