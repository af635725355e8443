//! Measures what observability costs: the processor time of a reconcile that writes one object, with and without the
//! operator's journal, the server's history, a `why` every second and an open page of the console.
//!
//! Server, operator, console and `why` run in this process, on an in-memory store and without sockets, so that nothing dilutes
//! the difference. Runs with and without them alternate, because a machine's speed varies; the median of each side
//! counts.

mod console_viewer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use homeostat_apiserver::ApiServer;
use homeostat_runtime::why::{WhyClient, WhyOptions};
use homeostat_runtime::{Action, CancellationToken, Controller, Operator};
use homeostat_store::Memory;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio::sync::Notify;

use crate::Outcome;
use crate::report::{self, ReportRow, ReportTarget};

const NAMESPACE: &str = "default";

/// The number of objects, each of which is reconciled repeatedly.
const OBJECTS: usize = 100;

/// The label of the objects that are reconciled; their children do not have it.
const LABEL: (&str, &str) = ("bench", "parent");

/// The maximum cost of observability, in percent of the processor time.
const TARGET_PERCENT: f64 = 3.0;

/// What to measure and how to print it.
#[derive(Args)]
pub(crate) struct WhyBenchOptions {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Runs on each side
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// Reconciles in each run
    #[arg(long, default_value_t = 20_000)]
    reconciles: u64,
    /// Reconciles per second, all objects together; 0 for as many as the machine can do
    #[arg(long, default_value_t = 0)]
    rate: u64,
}

/// What watches a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observation {
    /// No journal, no history.
    None,
    /// The journal, the history and a `why` every second.
    Why,
    /// The same, and an open page of the console.
    WhyAndConsole,
}

pub(crate) async fn run(options: &WhyBenchOptions) -> Outcome<()> {
    // The first run in a process is always slower.
    processor_time_per_reconcile(Observation::WhyAndConsole, options).await?;
    let sides = [Observation::WhyAndConsole, Observation::Why, Observation::None];
    let mut figures = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..options.runs {
        for (side, figures) in sides.iter().zip(&mut figures) {
            figures.push(processor_time_per_reconcile(*side, options).await?);
        }
    }
    let [all, why, none] = figures.map(median);
    let percent = |figure: f64| (figure / none - 1.0) * 100.0;
    let rows = [
        ReportRow::beside(
            "processor time per reconcile",
            "us",
            [all, none],
            ReportTarget::AtMost(f64::INFINITY),
        ),
        ReportRow::alone(
            "journal, history and why, of that",
            "%",
            percent(why),
            ReportTarget::AtMost(TARGET_PERCENT),
        ),
        ReportRow::alone(
            "journal, history, why and an open console, of that",
            "%",
            percent(all),
            ReportTarget::AtMost(TARGET_PERCENT),
        ),
    ];
    report::print(&rows, "without", options.json);
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    if figures.len().is_multiple_of(2) {
        f64::midpoint(figures[middle - 1], figures[middle])
    } else {
        figures[middle]
    }
}

/// Returns the processor time of one reconcile in microseconds, including everything else in this process.
async fn processor_time_per_reconcile(observation: Observation, options: &WhyBenchOptions) -> Outcome<f64> {
    let is_seen = observation != Observation::None;
    let (server, background) = ApiServer::builder(Arc::new(Memory::new())).build().await?;
    if !is_seen {
        server.disable_history();
    }
    let stop = CancellationToken::new();
    let background = tokio::spawn(background.run(stop.clone()));
    let client = Client::new(server.clone(), NAMESPACE);
    create_objects(&client).await?;
    let count = Arc::new(ReconcileCount::new(options));
    let operator = operator(&count, is_seen);
    let page = match observation {
        Observation::WhyAndConsole => {
            Some(tokio::spawn(console_viewer::open_page(server, operator.journal()).await?))
        }
        _ => None,
    };
    let before = crate::sim::processor_seconds()?;
    let running = tokio::spawn(operator.run_on(client.clone(), stop.clone()));
    let asking = is_seen.then(|| tokio::spawn(ask_every_second(client)));
    count.all_done.notified().await;
    let seconds = crate::sim::processor_seconds()? - before;
    asking.inspect(tokio::task::JoinHandle::abort);
    page.inspect(tokio::task::JoinHandle::abort);
    stop.cancel();
    running.await??;
    background.await?;
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let done = options.reconciles as f64;
    Ok(seconds * 1e6 / done)
}

/// Counts reconciles.
struct ReconcileCount {
    done: AtomicU64,
    last: u64,
    all_done: Notify,
    /// The pause of an object between two reconciles.
    pause: Option<Duration>,
}

impl ReconcileCount {
    fn new(options: &WhyBenchOptions) -> Self {
        let objects = u32::try_from(OBJECTS).unwrap_or(u32::MAX);
        let rate = u32::try_from(options.rate).unwrap_or(u32::MAX);
        let pause = (rate > 0).then(|| Duration::from_secs(1) * objects / rate);
        Self { done: AtomicU64::new(0), last: options.reconciles, all_done: Notify::new(), pause }
    }
}

fn operator(count: &Arc<ReconcileCount>, is_seen: bool) -> Operator {
    let count = Arc::clone(count);
    let control = Controller::<ConfigMap>::new().labels(format!("{}={}", LABEL.0, LABEL.1)).reconcile(
        move |map: Arc<ConfigMap>, cx: homeostat_runtime::Context<ConfigMap>| {
            let count = Arc::clone(&count);
            async move {
                let number = count.done.fetch_add(1, Ordering::Relaxed) + 1;
                if number > count.last {
                    return Ok(Action::await_change());
                }
                let mut child = ConfigMap::default();
                child.metadata.name = Some(format!("{}-child", map.name_any()));
                child.data = Some([("number".to_owned(), number.to_string())].into());
                cx.apply(child).await?;
                if number == count.last {
                    count.all_done.notify_one();
                }
                Ok(count.pause.map_or_else(Action::requeue_now, Action::requeue))
            }
        },
    );
    let operator = Operator::new("bench.homeostat.dev").control(control).grace(Duration::from_secs(5));
    let operator = operator.without_rights_review();
    if is_seen { operator } else { operator.without_journal() }
}

async fn create_objects(client: &Client) -> Outcome<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    for number in 0..OBJECTS {
        let labels = Some([(LABEL.0.to_owned(), LABEL.1.to_owned())].into());
        let metadata = ObjectMeta { name: Some(format!("parent-{number}")), labels, ..ObjectMeta::default() };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
    }
    Ok(())
}

/// Explains one of the objects once a second, as `why --watch` does.
async fn ask_every_second(client: Client) {
    let why = WhyClient::new(client, None);
    let options =
        WhyOptions { kind: "configmap".to_owned(), name: "parent-0".to_owned(), ..WhyOptions::default() };
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        why.explain(&options).await.expect("the object is there");
    }
}
