//! Measures schedules per second on one small reconciler, and how they grow with the number of the user's steps:
//! `cargo run --release -p homeostat-sim --example schedules`.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_core::Clock;
use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Budget, Simulation, delete, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "demo.dev", version = "v1", kind = "Page", namespaced)]
struct PageSpec {
    text: String,
}

async fn reconcile(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let mut child = ConfigMap::default();
    child.metadata.name.clone_from(&page.metadata.name);
    child.data = Some(BTreeMap::from([("text".to_owned(), page.spec.text.clone())]));
    cx.apply(child).await?;
    Ok(Action::await_change())
}

fn pages() -> Operator {
    let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(reconcile);
    Operator::new("pages.demo.dev").crd::<Page>().control(pages)
}

fn main() {
    let schedules = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2000);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("steps  schedules  seconds  per second and core ({cores} cores)  per second of processor time");
    for steps in [0, 2, 4, 8] {
        let mut page = Page::new("home", PageSpec { text: "hello".into() });
        page.metadata.namespace = Some("default".into());
        let mut simulation =
            Simulation::new(pages).named("schedules").given(page).budget(Budget { schedules, seconds: 600 });
        for step in 0..steps {
            simulation =
                simulation.then(edit::<Page>("home", move |page| page.spec.text = format!("text {step}")));
        }
        let (began, used) = (Clock::system().now(), processor_seconds());
        let outcome = simulation.then(delete::<Page>("home")).explore();
        let seconds = Clock::system().now().duration_since(began).as_secs_f64();
        if let Some(failure) = outcome.failure {
            panic!("{}", failure.report);
        }
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let rate = outcome.schedules as f64 / seconds / cores as f64;
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        let undisturbed = outcome.schedules as f64 / (processor_seconds() - used);
        println!(
            "{:>5}  {:>9}  {seconds:>7.2}  {rate:>8.0}  {undisturbed:>32.0}",
            steps + 1,
            outcome.schedules
        );
    }
}

/// Processor time of this process so far: what the machine's other work does not slow down. Zero where it is not told.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}
