//! What a cached object costs: two processes of each runtime, one that caches few objects and one that caches many;
//! the difference of their resident memory, divided by the difference in objects.

use std::path::{Path, PathBuf};
use std::process::Command;

use tokio::time::Instant;

use super::first::counting;
use super::side::{Setup, Side};
use crate::report::{Row, Target};
use crate::server::{SHARDS, client_of, resident_kilobytes};

/// The label of every object.
pub(super) const MANY: &str = "app=bench";

/// Few are the objects of this many shards: enough to fill what has a fixed size, such as the journal.
const FEW_SHARDS: usize = 20;

/// How the child process is called.
#[derive(clap::Args)]
pub(crate) struct Hold {
    #[arg(long)]
    kubeconfig: PathBuf,
    #[arg(long, value_enum)]
    side: Side,
    #[arg(long)]
    labels: String,
    #[arg(long)]
    objects: usize,
}

pub(super) fn measure(kubeconfig: &Path, objects: usize) -> Result<Row, Box<dyn std::error::Error>> {
    let few = objects * FEW_SHARDS / SHARDS;
    let shards: Vec<String> = (0..FEW_SHARDS).map(|shard| shard.to_string()).collect();
    let selector = format!("shard in ({})", shards.join(","));
    let mut figures = [0.0; 2];
    for (side, figure) in Side::BOTH.into_iter().zip(&mut figures) {
        let many = child(side, kubeconfig, MANY, objects)?.kilobytes;
        let kilobytes = many - child(side, kubeconfig, &selector, few)?.kilobytes;
        *figure = kilobytes * 1024.0 / f64::from(u32::try_from(objects - few)?);
    }
    Ok(Row::beside("memory per cached object", "bytes", figures, Target::TimesLess(1.0)))
}

/// What a process says that has reconciled and caches these objects.
pub(super) struct Held {
    kilobytes: f64,
    /// From the start of the controller to its last first reconcile.
    pub(super) milliseconds: f64,
}

/// Starts a process that reconciles these objects, and hears what it says.
pub(super) fn child(
    side: Side,
    kubeconfig: &Path,
    labels: &str,
    objects: usize,
) -> Result<Held, Box<dyn std::error::Error>> {
    let side = if side == Side::Ours { "ours" } else { "theirs" };
    let output = Command::new(std::env::current_exe()?)
        .args(["hold", "--side", side, "--labels", labels, "--objects", &objects.to_string(), "--kubeconfig"])
        .arg(kubeconfig)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let figures = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>();
    match figures.as_deref() {
        Ok(&[kilobytes, milliseconds]) => Ok(Held { kilobytes, milliseconds }),
        _ => Err(format!("the child said: {}", String::from_utf8_lossy(&output.stderr)).into()),
    }
}

/// The child: caches the objects and says how much memory it has and how long it took.
pub(crate) async fn hold(options: &Hold) -> Result<(), Box<dyn std::error::Error>> {
    let (deed, all) = counting(options.objects);
    let setup = Setup { labels: Some(&options.labels), ..Setup::default() };
    let client = client_of(&options.kubeconfig).await?;
    let start = Instant::now();
    let running = options.side.start(client, setup, deed);
    all.notified().await;
    let elapsed = start.elapsed();
    println!("{} {}", resident_kilobytes(std::process::id())?, elapsed.as_secs_f64() * 1000.0);
    running.end().await;
    Ok(())
}
