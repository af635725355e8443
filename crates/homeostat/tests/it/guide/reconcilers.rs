//! The Rust of the pages about reconcilers: caching, finalizers, ownership, results and errors. Compiled, not run.

#![expect(dead_code, reason = "what the guide shows is compiled and not called")]

use homeostat::prelude::*;

#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug)]
#[kube(group = "demo.dev", version = "v1", kind = "Page", namespaced, status = "PageStatus")]
struct PageSpec {}

#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default)]
struct PageStatus {
    ready: i32,
    #[serde(flatten)]
    base: StandardStatus,
}

#[derive(Hash, PartialEq, Eq)]
struct OnNode(String);

fn indexed() -> Controller<Page> {
    Controller::<Page>::new().index::<Pod, OnNode, _>(|pod| pod.spec.as_ref()?.node_name.clone().map(OnNode))
}

async fn reconcile(page: Arc<Page>, cx: Context<Page>) -> Result<Action> {
    let pods = cx.indexed::<Pod, OnNode>(&OnNode("worker-1".into()))?;
    let ready = i32::try_from(pods.len())?;
    let map = cx.apply(config_map(&page)).await?;
    cx.prune(&[map]).await?;
    cx.status(|status| status.ready = ready);
    cx.condition(condition("Ready", ready > 0, "Up", "replicas are up"));
    cx.event(Severity::Normal, "Created", "the page is up");
    Ok(Action::await_change())
}

fn config_map(page: &Page) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(page.name_any());
    map
}

async fn remove_dns(_: Arc<Page>, _: Context<Page>) -> Result<Action> {
    Ok(Action::await_change())
}

fn cleaned() -> impl Into<BuiltController> {
    Controller::<Page>::new().cleanup(remove_dns).reconcile(reconcile)
}

#[rustfmt::skip]
fn outcome(which: u8, anything: Fault) -> Result<Action> {
    match which {
        0 => {
            Ok(Action::await_change())
        }
        1 => {
            Ok(Action::requeue(Duration::from_secs(300)))
        }
        2 => {
            Ok(Action::requeue_now())
        }
        _ => {
            Err(anything)
        }
    }
}

#[derive(Debug)]
enum Problem {
    Busy,
    Misspelt,
    Other,
    Unheard,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Problem {}

fn class(error: Problem) -> Fault {
    use Problem::{Busy, Misspelt};
    match error {
        Busy => retry_after(Duration::from_secs(10), error),
        Misspelt => terminal(error),
        _ => error.into(),
    }
}
