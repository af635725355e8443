//! Against `homeostat up` in its own process, over TLS: how long from the start of a controller until it has
//! reconciled every object that is there, and what a cached object costs in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::memory;
use super::report::{Row, Target};
use super::side::{Deed, Reply, Setup, Side};
use crate::server::{Load, Process};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Objects of the first measurement, and all those the second one caches.
const FIRST: usize = 10_000;
const ALL: usize = 30_000;

/// Enough for either runtime on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An odd number of rounds has a middle one.
const ROUNDS: usize = 3;

pub(super) async fn measure() -> Outcome<Vec<Row>> {
    let process = Process::start()?;
    let load = Load::new(process.client().await?);
    load.namespace().await?;
    load.create(64, FIRST, "many").await?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (side, times) in Side::BOTH.into_iter().zip(&mut times) {
            times.push(round(side, &process, FIRST).await?);
        }
    }
    let middle = times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2].as_secs_f64() * 1000.0
    });
    let mut rows =
        vec![Row::beside("first reconcile of 10000 objects, TLS", "ms", middle, Target::TimesLess(3.0))];
    load.create(64, ALL - FIRST, "more").await?;
    rows.push(memory::measure(&process, ALL)?);
    Ok(rows)
}

/// From the start of a controller to its last first reconcile.
async fn round(side: Side, process: &Process, objects: usize) -> Outcome<Duration> {
    let client = process.client().await?;
    let start = Instant::now();
    let (deed, all) = counting(objects);
    let running = side.start(client, Setup { labels: Some("app=bench"), ..Setup::default() }, deed);
    tokio::time::timeout(PATIENCE, all.notified()).await.map_err(|_| "not all objects were reconciled")?;
    let elapsed = start.elapsed();
    running.end().await;
    Ok(elapsed)
}

/// A deed that does nothing but count, and a bell for the last.
pub(super) fn counting(objects: usize) -> (Deed, Arc<Notify>) {
    let (left, bell) = (AtomicUsize::new(objects), Arc::new(Notify::new()));
    let ring = bell.clone();
    let deed: Deed = Arc::new(move |_| {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            ring.notify_one();
        }
        std::future::ready(Reply::Settled).boxed()
    });
    (deed, bell)
}
