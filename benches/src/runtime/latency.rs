//! Measures the time from a watch event to the reconcile it triggers, among 10 000 idle cached objects: first when all
//! watches work, then while one of seven fails.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::controllers::{ControllerSetup, ReconcileFn, ReconcileResult, RuntimeKind};
use super::fake_server::FakeServer;
use crate::report::{ReportRow, ReportTarget};

const OBJECTS: usize = 10_000;

/// The number of events while all watches work: one after the other, each waiting for its reconcile.
const EVENTS: usize = 2_000;

/// The number of events while a watch fails: one every 50 ms, without waiting for reconciles.
const SPACED_EVENTS: usize = 200;
const SPACE: Duration = Duration::from_millis(50);

/// An event that is not seen by then is counted with this time.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn measure() -> Vec<ReportRow> {
    let measure_both = async |watches| {
        [latencies(RuntimeKind::Ours, watches).await, latencies(RuntimeKind::Theirs, watches).await]
    };
    let healthy = measure_both(WatchHealth::AllWork).await;
    let failing = measure_both(WatchHealth::OneFails).await;
    let row = |name: &str, both: &[Vec<Duration>; 2], share| {
        let figures = both.each_ref().map(|times| quantile(times, share));
        ReportRow::beside(name, "ms", figures, ReportTarget::TimesLess(1.0))
    };
    vec![
        row("trigger to reconcile, p50", &healthy, 0.5),
        row("trigger to reconcile, p99", &healthy, 0.99),
        row("trigger to reconcile, one of seven watches fails, p50", &failing, 0.5),
        row("trigger to reconcile, one of seven watches fails, p99", &failing, 0.99),
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

/// Starts a controller that reports which object it reconciles, and waits until all objects have been reconciled once.
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

/// A running controller and its reports.
pub(super) struct ReportingController {
    pub(super) running: super::controllers::RunningController,
    heard: mpsc::UnboundedReceiver<(String, Instant)>,
}

impl ReportingController {
    /// Returns the next reconcile, if it arrives in time.
    pub(super) async fn next(&mut self, patience: Duration) -> Option<(String, Instant)> {
        tokio::time::timeout(patience, self.heard.recv()).await.ok().flatten()
    }
}

/// Whether the controller's watches work.
#[derive(Clone, Copy)]
enum WatchHealth {
    AllWork,
    OneFails,
}

/// Returns the times of all events, sorted.
async fn latencies(side: RuntimeKind, watches: WatchHealth) -> Vec<Duration> {
    let broken = match watches {
        WatchHealth::AllWork => None,
        WatchHealth::OneFails => Some("/secrets"),
    };
    let fake = FakeServer::with(OBJECTS, broken);
    let setup = ControllerSetup { with_children: true, ..ControllerSetup::default() };
    let mut reporting = reporting(side, &fake, setup, OBJECTS).await;
    let mut times = match watches {
        WatchHealth::AllWork => one_by_one(&fake, &mut reporting).await,
        WatchHealth::OneFails => spaced(&fake, &mut reporting).await,
    };
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
