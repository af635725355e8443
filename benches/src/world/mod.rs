//! Measures a full pass over a world: one list and one write per drifted thing, regardless of the number of things.
//! Time and memory grow no faster than the number of things.

mod fake_cluster;
mod fake_world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use fake_cluster::FakeCluster;
use fake_world::{CallCount, FakeWorld};
use homeostat_core::journal::Entry;
use homeostat_runtime::world::{Limits, Outside, Ownership};
use homeostat_runtime::{CancellationToken, Operator};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::figure::{Figure, FigureTarget, print};
use crate::server::resident_kilobytes;

/// The numbers of things.
const SIZES: [usize; 3] = [10_000, 50_000, 100_000];

/// The number of things that are changed from outside before the measured pass.
const DRIFTED: usize = 10;

/// The operator's name: the objects already carry its finalizer, as they do in an idle world.
const OPERATOR: &str = "world.bench.dev";

/// How many times more a thing may cost in a large idle world than in a small one, because caches are finite.
const GROWTH_MAX: f64 = 2.0;

/// How to print the result.
#[derive(Args)]
pub(crate) struct WorldOptions {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What a pass over a world of one size costs.
struct PassCost {
    quiet: Duration,
    drifted: Duration,
    calls: CallCount,
    memory_mb: f64,
}

pub(crate) async fn run(options: &WorldOptions) -> Result<(), Box<dyn std::error::Error>> {
    let mut figures = Vec::new();
    let mut per_thing = Vec::new();
    for size in SIZES {
        let cost = measure(size).await?;
        per_thing.push(cost.quiet.as_secs_f64() / count(size));
        figures.extend(figures_of(size, &cost));
    }
    let growth = per_thing[SIZES.len() - 1] / per_thing[0];
    let growth = Figure::new("time per thing, 100 000 over 10 000", growth, "times");
    figures.push(growth.target(FigureTarget::AtMost(GROWTH_MAX)));
    Ok(print(&figures, options.json)?)
}

fn figures_of(size: usize, cost: &PassCost) -> [Figure; 6] {
    let named = |what: &str| format!("{size} things: {what}");
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let drifted = count(DRIFTED);
    [
        Figure::new(named("pass, nothing drifted"), milliseconds(cost.quiet), "ms"),
        Figure::new(named("pass and repair, 10 drifted"), milliseconds(cost.drifted), "ms"),
        Figure::new(named("lists in that pass"), count(cost.calls.lists), "")
            .target(FigureTarget::AtMost(1.0)),
        Figure::new(named("gets in that pass"), count(cost.calls.gets), "")
            .target(FigureTarget::AtMost(drifted)),
        Figure::new(named("writes in that pass"), count(cost.calls.writes), "")
            .target(FigureTarget::AtMost(drifted)),
        Figure::new(named("memory, objects cached included"), cost.memory_mb, "MB"),
    ]
}

async fn measure(size: usize) -> Result<PassCost, Box<dyn std::error::Error>> {
    let cluster = FakeCluster::new(size, &format!("{OPERATOR}/configmap"));
    let field = FakeWorld::new(size);
    let before = memory_mb()?;
    let limits = Limits { per_second: 1e9, burst: u32::MAX, ..Limits::default() };
    let outside = Outside::new(field.clone())
        .ownership(Ownership::Prefix(String::new()))
        .poll(Duration::from_secs(24 * 3600))
        .limits(limits);
    let operator = Operator::new(OPERATOR).control(outside.control());
    let (sender, mut passes) = mpsc::unbounded_channel();
    let (settled, all_settled) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let quiet_now = all_settled.clone();
    operator.journal().fold(move |record| match record.entry {
        Entry::Surveyed { .. } => drop(sender.send(Instant::now())),
        // This is the last of the initial reconciles: from now on, only passes are measured.
        Entry::Settled { .. } if settled.fetch_add(1, Ordering::Relaxed) + 1 == size => {
            quiet_now.notify_one();
        }
        _ => {}
    });
    let stop = CancellationToken::new();
    let running = tokio::spawn(operator.run_on(cluster.client(), stop.clone()));
    passes.recv().await.ok_or("the operator ended")?;
    all_settled.notified().await;
    field.ask_for_pass();
    let quiet = passes.recv().await.ok_or("the operator ended")? - field.began();
    let memory_mb = memory_mb()? - before;
    field.drift(DRIFTED);
    field.ask_for_pass();
    passes.recv().await.ok_or("the operator ended")?;
    let repaired = field.repaired().await;
    let (calls, drifted) = (field.count(), repaired - field.began());
    stop.cancel();
    running.await??;
    Ok(PassCost { quiet, drifted, calls, memory_mb })
}

/// Returns the resident memory of this process.
fn memory_mb() -> Result<f64, Box<dyn std::error::Error>> {
    Ok(resident_kilobytes(std::process::id())? / 1024.0)
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}
