//! What a cached object costs: two processes of each runtime, one that caches few objects and one that caches many;
//! the difference of their resident memory, divided by the difference in objects.

use std::path::PathBuf;
use std::process::Command;

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::first::counting;
use super::report::{Row, Target};
use super::side::{Setup, Side};
use crate::server::{Process, SHARDS, resident_kilobytes};

/// The label of every object.
const MANY: &str = "app=bench";

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

pub(super) fn measure(process: &Process, objects: usize) -> Result<Row, Box<dyn std::error::Error>> {
    let few = objects * FEW_SHARDS / SHARDS;
    let shards: Vec<String> = (0..FEW_SHARDS).map(|shard| shard.to_string()).collect();
    let selector = format!("shard in ({})", shards.join(","));
    let mut figures = [0.0; 2];
    for (side, figure) in Side::BOTH.into_iter().zip(&mut figures) {
        let kilobytes = child(side, process, MANY, objects)? - child(side, process, &selector, few)?;
        *figure = kilobytes * 1024.0 / f64::from(u32::try_from(objects - few)?);
    }
    Ok(Row::beside("memory per cached object", "bytes", figures, Target::TimesLess(1.0)))
}

/// The resident memory of a process that has reconciled and caches these objects.
fn child(
    side: Side,
    process: &Process,
    labels: &str,
    objects: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let side = if side == Side::Ours { "ours" } else { "theirs" };
    let output = Command::new(std::env::current_exe()?)
        .args(["hold", "--side", side, "--labels", labels, "--objects", &objects.to_string(), "--kubeconfig"])
        .arg(process.kubeconfig())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    text.trim()
        .parse()
        .map_err(|_| format!("the child said: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// The child: caches the objects and says how much memory it has.
pub(crate) async fn hold(options: &Hold) -> Result<(), Box<dyn std::error::Error>> {
    let kubeconfig = Kubeconfig::read_from(&options.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let (deed, all) = counting(options.objects);
    let setup = Setup { labels: Some(&options.labels), ..Setup::default() };
    let running = options.side.start(Client::try_from(config)?, setup, deed);
    all.notified().await;
    println!("{}", resident_kilobytes(std::process::id())?);
    running.end().await;
    Ok(())
}
