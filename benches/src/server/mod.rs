//! Measures the API server under load: the calls in the design's table, over TLS against a separate process, and in
//! process.
//!
//! The reference figures are from the design: kube-apiserver 1.36.4 with etcd, measured on a machine with two cores. In
//! both cases, client and server share the machine. `--reference` measures beside the real one instead.

mod admission_cost;
mod load;
pub(crate) mod process;
mod reference;
mod reference_process;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use homeostat_apiserver::ApiServer;
use homeostat_store::Memory;
use kube::Client;

use crate::figure::{Figure, FigureTarget, print};
pub(crate) use load::{LoadGenerator, NAMESPACE, SHARDS};
pub(crate) use process::{ServerProcess, client_of, resident_kilobytes};

/// The number of clients that write or read concurrently.
const CLIENTS: usize = 64;
/// How long to wait until a server is idle: its controllers have started and listed their objects.
const REST: Duration = Duration::from_secs(3);

/// Measure the server
#[derive(clap::Args)]
pub(crate) struct ServerOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Objects to create
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Leave out the run in process
    #[arg(long)]
    tls_only: bool,
    /// Measure only what admission costs with nothing configured
    #[arg(long)]
    admission: bool,
    /// Compare with the real kube-apiserver: a folder that has it and its etcd
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["admission", "tls_only", "only"])]
    reference: Option<PathBuf>,
    /// After the objects are created, measure only what has this in its name (get, list, paged, watchers, delete)
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

impl ServerOptions {
    fn wants(&self, name: &str) -> bool {
        self.only.as_deref().is_none_or(|only| name.contains(only))
    }
}

/// Measures and prints.
pub(crate) async fn run(options: ServerOptions) -> Result<(), Box<dyn std::error::Error>> {
    if options.admission {
        print(&admission_cost::measure(options.objects).await?, options.json)?;
        return Ok(());
    }
    if let Some(programs) = &options.reference {
        return reference::run(programs, options.objects, options.json).await;
    }
    let mut figures = Vec::new();
    let process = ServerProcess::start()?;
    let client = process.client().await?;
    eprintln!("server {} is ready, measuring over TLS", process.url);
    tokio::time::sleep(REST).await;
    let at_rest = process.memory_mb()?;
    figures.push(
        Figure::new("start until ready", ms(process.started_in), "ms").target(FigureTarget::AtMost(100.0)),
    );
    figures.push(Figure::new("memory at rest", at_rest, "MB").target(FigureTarget::AtMost(20.0)));
    over(&client, "tls", &options, &mut figures, Some(&process)).await?;
    drop(process);
    if !options.tls_only {
        eprintln!("measuring in process");
        let (server, background) = ApiServer::builder(Arc::new(Memory::new())).build().await?;
        let stop = tokio_util::sync::CancellationToken::new();
        let background = tokio::spawn(background.run(stop.clone()));
        over(&Client::new(server, "default"), "in process", &options, &mut figures, None).await?;
        stop.cancel();
        background.await?;
    }
    print(&figures, options.json)?;
    Ok(())
}

/// Measures every call through this client.
async fn over(
    client: &Client,
    way: &str,
    options: &ServerOptions,
    figures: &mut Vec<Figure>,
    process: Option<&ServerProcess>,
) -> Result<(), Box<dyn std::error::Error>> {
    let load = LoadGenerator::new(client.clone());
    let is_tls = process.is_some();
    let target = |target: FigureTarget| is_tls.then_some(target);
    let mut push = |name: &str, value: f64, unit: &'static str, target: Option<FigureTarget>| {
        eprintln!("  {name}: {value:.1} {unit}");
        let figure = Figure::new(format!("{name}, {way}"), value, unit);
        figures.push(match target {
            Some(target) => figure.target(target),
            None => figure,
        });
    };
    load.namespace().await?;
    let single = load.create(1, options.objects * 3 / 100, "single").await?;
    push("create, 1 client", single.per_second, "/s", target(FigureTarget::AtLeast(675.0)));
    push("create, 1 client, p50", ms(single.p50), "ms", None);
    let many = load.create(CLIENTS, options.objects, "many").await?;
    push("create, 64 clients", many.per_second, "/s", target(FigureTarget::AtLeast(5.0 * 2544.0)));
    push("create, 64 clients, p99", ms(many.p99), "ms", None);
    if let Some(process) = process {
        push("memory after 10 000 objects", process.memory_mb()?, "MB", target(FigureTarget::AtMost(60.0)));
    }
    if options.wants("get") {
        let get = load.get(CLIENTS, options.objects * 3, options.objects).await?;
        push("get, 64 clients", get.per_second, "/s", target(FigureTarget::AtLeast(4.0 * 4910.0)));
    }
    for (name, value, unit, most) in lists(client, options, process)? {
        push(name, value, unit, most.and_then(|most| target(FigureTarget::AtMost(most))));
    }
    if options.wants("watchers") {
        let events = load.watch(&another(client, process).await?, 100, 500).await?;
        push("100 watchers × 500 updates", events, "events/s", target(FigureTarget::AtLeast(400_000.0)));
    }
    if options.wants("delete") {
        let delete = load.delete(CLIENTS, options.objects).await?;
        push("delete, 64 clients", delete.per_second, "/s", None);
    }
    Ok(())
}

/// A figure of a list: name, value, unit, and maximum.
type ListFigure = (&'static str, f64, &'static str, Option<f64>);

/// Measures lists with one client in one thread. With several threads, the client passes each chunk it reads to another
/// thread, which takes longer than everything the server does: up to three times as long, and different in each run.
fn lists(
    client: &Client,
    options: &ServerOptions,
    process: Option<&ServerProcess>,
) -> Result<Vec<ListFigure>, Box<dyn std::error::Error>> {
    tokio::task::block_in_place(|| {
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        alone.block_on(async {
            let load = LoadGenerator::new(another(client, process).await?);
            let mut found = Vec::new();
            if options.wants("list") {
                let (all, size) = load.list("").await?;
                let (by_label, _) = load.list("labelSelector=shard%3D7").await?;
                found.push(("list all", ms(all), "ms", Some(17.9)));
                found.push(("list all, size", size, "MB", None));
                found.push(("list by label", ms(by_label), "ms", Some(13.0)));
            }
            if options.wants("list paged") {
                found.push(("list paged by 500", ms(load.pages(500).await?), "ms", Some(19.4)));
            }
            Ok(found)
        })
    })
}

/// Returns a client with its own connections, if connections are used.
async fn another(
    client: &Client,
    process: Option<&ServerProcess>,
) -> Result<Client, Box<dyn std::error::Error>> {
    match process {
        Some(process) => process.client().await,
        None => Ok(client.clone()),
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
