//! A small operator with any number of user steps: every page has a ConfigMap with its text.

use std::collections::BTreeMap;
use std::sync::Arc;

use homeostat_runtime::{Action, Context, Controller, Operator, Result};
use homeostat_sim::{Simulation, delete, edit};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
#[kube(group = "bench.homeostat.dev", version = "v1", kind = "Page", namespaced)]
pub(crate) struct PageSpec {
    text: String,
}

async fn reconcile(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let mut child = ConfigMap::default();
    child.metadata.name.clone_from(&page.metadata.name);
    child.data = Some(BTreeMap::from([("text".to_owned(), page.spec.text.clone())]));
    cx.apply(child).await?;
    Ok(Action::await_change())
}

fn operator() -> Operator {
    let pages = Controller::<Page>::new().owns::<ConfigMap>().reconcile(reconcile);
    Operator::new("pages.bench.homeostat.dev").crd::<Page>().control(pages)
}

/// Returns a simulation in which the user takes this many steps, the last of which deletes the page.
pub(super) fn simulation(steps: usize) -> Simulation {
    let mut page = Page::new("home", PageSpec { text: "hello".into() });
    page.metadata.namespace = Some("default".into());
    let start = Simulation::new(operator).named("pages").given(page);
    let edits =
        (1..steps).map(|step| edit::<Page>("home", move |page| page.spec.text = format!("text {step}")));
    edits.fold(start, Simulation::then).then(delete::<Page>("home"))
}
