//! Measures the time from the start of a controller until it has reconciled every existing object, and what a cached
//! object costs in memory, against a server in its own process over TLS.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use tokio::sync::Notify;

use super::controllers::{ReconcileFn, ReconcileResult, RuntimeKind};
use super::{edits, memory};
use crate::Outcome;
use crate::report::{ReportRow, ReportTarget};
use crate::server::{LoadGenerator, ServerProcess, client_of};

/// The objects of the first measurement, and all the objects that the second one caches.
const FIRST: usize = 10_000;
const ALL: usize = 30_000;

/// The number of rounds: odd, so that there is a median.
const ROUNDS: usize = 5;

/// Measures on `homeostat up`.
pub(super) async fn measure() -> Outcome<Vec<ReportRow>> {
    let process = ServerProcess::start()?;
    let load = LoadGenerator::new(process.client().await?);
    load.namespace().await?;
    measure_with(&load, process.kubeconfig()).await
}

/// Measures on the server of this kubeconfig, which is left as it was, except for the empty namespace.
pub(super) async fn measure_on(kubeconfig: &Path) -> Outcome<Vec<ReportRow>> {
    let load = LoadGenerator::new(client_of(kubeconfig).await?);
    load.namespace().await?;
    let rows = measure_with(&load, kubeconfig).await;
    load.clear().await?;
    rows
}

async fn measure_with(load: &LoadGenerator, kubeconfig: &Path) -> Outcome<Vec<ReportRow>> {
    load.create(64, FIRST, "many").await?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (side, times) in RuntimeKind::BOTH.into_iter().zip(&mut times) {
            // Each runs in its own process, as operators do, so that neither has to clean up after the other.
            times.push(memory::child(side, kubeconfig, memory::MANY, FIRST)?.milliseconds);
        }
    }
    let middle = times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    let mut rows = vec![ReportRow::beside(
        "first reconcile of 10000 objects, TLS",
        "ms",
        middle,
        ReportTarget::TimesLess(3.0),
    )];
    rows.extend(edits::measure(&client_of(kubeconfig).await?, FIRST).await?);
    load.create(64, ALL - FIRST, "more").await?;
    rows.push(memory::measure(kubeconfig, ALL)?);
    Ok(rows)
}

/// Returns a reconcile function that only counts, and a notification for the last object.
pub(super) fn counting(objects: usize) -> (ReconcileFn, Arc<Notify>) {
    let (left, bell) = (AtomicUsize::new(objects), Arc::new(Notify::new()));
    let ring = bell.clone();
    let reconcile: ReconcileFn = Arc::new(move |_| {
        if left.fetch_sub(1, Ordering::Relaxed) == 1 {
            ring.notify_one();
        }
        std::future::ready(ReconcileResult::Settled).boxed()
    });
    (reconcile, bell)
}
