//! Measures the time from the edit of an object, sent to a server over TLS, to the reconcile it triggers, among 10 000
//! idle cached objects. It includes the server's part, which is the same on both sides: an operator's users wait for
//! all of it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::controllers::{ControllerSetup, ReconcileFn, ReconcileResult, RuntimeKind};
use super::latency::quantile;
use super::memory::MANY;
use crate::Outcome;
use crate::report::{ReportRow, ReportTarget};
use crate::server::NAMESPACE;

/// The number of edits on each side, one after the other; each edit waits for its reconcile.
const EDITS: usize = 500;

/// The maximum wait for a reconcile.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn measure(client: &Client, objects: usize) -> Outcome<Vec<ReportRow>> {
    let both = [
        latencies(RuntimeKind::Ours, client, objects).await?,
        latencies(RuntimeKind::Theirs, client, objects).await?,
    ];
    let row = |name: &str, share| {
        let figures = both.each_ref().map(|times| quantile(times, share));
        ReportRow::beside(name, "ms", figures, ReportTarget::TimesLess(1.0))
    };
    Ok(vec![row("edit to reconcile, TLS, p50", 0.5), row("edit to reconcile, TLS, p99", 0.99)])
}

/// Returns the times of all edits, sorted.
async fn latencies(side: RuntimeKind, client: &Client, objects: usize) -> Outcome<Vec<Duration>> {
    let (sender, mut heard) = mpsc::unbounded_channel();
    let reconcile: ReconcileFn = Arc::new(move |name| {
        // The receiver is gone only when the measurement is over.
        let _ = sender.send((name, Instant::now()));
        std::future::ready(ReconcileResult::Settled).boxed()
    });
    let setup = ControllerSetup { labels: Some(MANY), ..ControllerSetup::default() };
    let running = side.start(client.clone(), setup, reconcile);
    for _ in 0..objects {
        next(&mut heard).await?;
    }
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let mut times = Vec::new();
    for edit in 0..EDITS {
        let name = format!("many-{}", edit % objects);
        // It contains the side, so that the second side's writes are also changes.
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"edit": format!("{side:?}-{edit}")}}}));
        let start = Instant::now();
        maps.patch(&name, &PatchParams::default(), &patch).await?;
        let (reconciled, at) = next(&mut heard).await?;
        if reconciled != name {
            return Err(format!("{name} was edited and {reconciled} reconciled").into());
        }
        times.push(at - start);
    }
    running.end().await;
    times.sort_unstable();
    Ok(times)
}

async fn next(heard: &mut mpsc::UnboundedReceiver<(String, Instant)>) -> Outcome<(String, Instant)> {
    let next = tokio::time::timeout(PATIENCE, heard.recv()).await;
    Ok(next.map_err(|_| "no reconcile within 30 s")?.ok_or("the controller ended")?)
}
