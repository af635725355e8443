//! Measures what a cached object costs: starts two processes of each runtime, one that caches few objects and one that
//! caches many, and divides the difference in their resident memory by the difference in objects.

use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::time::Instant;

use super::controllers::{ControllerSetup, RuntimeKind};
use super::first_sync::counting;
use crate::report::{ReportRow, ReportTarget};
use crate::server::{SHARDS, client_of, resident_kilobytes};

/// The label of every object.
pub(super) const MANY: &str = "app=bench";

/// How many shards the process with few objects caches: enough to fill everything of fixed size, such as the journal.
const FEW_SHARDS: usize = 20;

/// The child process's arguments.
#[derive(clap::Args)]
pub(crate) struct HoldArguments {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long, value_enum)]
    side: RuntimeKind,
    #[arg(long)]
    labels: String,
    #[arg(long)]
    objects: usize,
}

pub(super) fn measure(kubeconfig: &Path, objects: usize) -> Result<ReportRow, Box<dyn std::error::Error>> {
    let few = objects * FEW_SHARDS / SHARDS;
    let shards: Vec<String> = (0..FEW_SHARDS).map(|shard| shard.to_string()).collect();
    let selector = format!("shard in ({})", shards.join(","));
    let mut figures = [0.0; 2];
    for (side, figure) in RuntimeKind::BOTH.into_iter().zip(&mut figures) {
        let many = child(side, kubeconfig, MANY, objects)?.kilobytes;
        let kilobytes = many - child(side, kubeconfig, &selector, few)?.kilobytes;
        *figure = kilobytes * 1024.0 / f64::from(u32::try_from(objects - few)?);
    }
    Ok(ReportRow::beside("memory per cached object", "bytes", figures, ReportTarget::TimesLess(1.0)))
}

/// The report of a process that has reconciled and caches these objects.
pub(super) struct MemoryReport {
    kilobytes: f64,
    /// The time from the start of the controller until every object has been reconciled once.
    pub(super) milliseconds: f64,
}

/// Starts a process that reconciles these objects, and returns its report.
pub(super) fn child(
    side: RuntimeKind,
    kubeconfig: &Path,
    labels: &str,
    objects: usize,
) -> Result<MemoryReport, Box<dyn std::error::Error>> {
    let side = if side == RuntimeKind::Ours { "ours" } else { "theirs" };
    let output = Command::new(std::env::current_exe()?)
        .args(["hold", "--side", side, "--labels", labels, "--objects", &objects.to_string(), "--kubeconfig"])
        .arg(kubeconfig)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let figures = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    match figures.as_deref() {
        Ok(&[kilobytes, milliseconds]) => Ok(MemoryReport { kilobytes, milliseconds }),
        _ => Err(format!("the child said: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// Runs the child: caches the objects and prints how much memory it uses and how long it took.
pub(crate) async fn hold(options: &HoldArguments) -> Result<(), Box<dyn std::error::Error>> {
    let (reconcile, all) = counting(options.objects);
    let setup = ControllerSetup { labels: Some(&options.labels), ..ControllerSetup::default() };
    let client = client_of(&options.kubeconfig).await?;
    let start = Instant::now();
    let running = options.side.start(client, setup, reconcile);
    all.notified().await;
    let elapsed = start.elapsed();
    println!("{} {}", resident_kilobytes(std::process::id())?, elapsed.as_secs_f64() * 1000.0);
    running.end().await;
    Ok(())
}
