//! Before anything is changed, the current state must be ready. A bad image never becomes ready, so the good one that
//! would fix it is never written.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};
use serde_json::json;

use crate::objects::in_default;

const AGAIN: Duration = Duration::from_secs(30);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Store", namespaced)]
pub(crate) struct StoreSpec {
    image: String,
}

fn stateful_set(store: &Store) -> Result<StatefulSet> {
    let labels = json!({"store": store.name_any()});
    Ok(from_json(&json!({
        "metadata": {"name": store.name_any()},
        "spec": {
            "serviceName": store.name_any(),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "store", "image": store.spec.image}]},
            },
        },
    }))?)
}

fn is_ready(set: &StatefulSet) -> bool {
    set.status.as_ref().is_some_and(|status| status.ready_replicas == Some(1))
}

async fn wait_until_ready(store: Arc<Store>, cx: Context<Store>) -> Result<Action> {
    if let Some(set) = cx.get::<StatefulSet>(&*store.name_any())?
        && !is_ready(&set)
    {
        return Ok(Action::requeue(AGAIN));
    }
    cx.apply(stateful_set(&store)?).await?;
    Ok(Action::await_change())
}

async fn apply_always(store: Arc<Store>, cx: Context<Store>) -> Result<Action> {
    cx.apply(stateful_set(&store)?).await?;
    Ok(Action::await_change())
}

/// Returns a stand-in for the controllers and nodes that run StatefulSets. An image that does not exist never becomes
/// ready.
fn nodes() -> Operator {
    let run = |set: Arc<StatefulSet>, cx: Context<StatefulSet>| async move {
        let containers = set.spec.iter().flat_map(|spec| &spec.template.spec).flat_map(|pod| &pod.containers);
        let exists = containers.into_iter().all(|one| one.image.as_deref() != Some("store:typo"));
        if is_ready(&set) != exists {
            let status = json!({"replicas": 1, "readyReplicas": i32::from(exists)});
            cx.patch_status(&*set, json!({"status": status})).await?;
        }
        Ok(Action::await_change())
    };
    let sets = Controller::<StatefulSet>::new().writes_status::<StatefulSet>();
    Operator::new("nodes.zoo.homeostat.dev").control(sets.reconcile(run))
}

fn stores() -> Controller<Store> {
    Controller::new().owns::<StatefulSet>()
}

fn operator(stores: BuiltController) -> Operator {
    Operator::new("stores.zoo.homeostat.dev").crd::<Store>().control(stores)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .beside(nodes)
        .given(in_default(Store::new("shop", StoreSpec { image: "store:1".to_owned() })))
        .then(edit::<Store>("shop", |store| store.spec.image = "store:typo".into()))
        .then(edit::<Store>("shop", |store| store.spec.image = "store:2".into()))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(stores().reconcile(wait_until_ready)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(stores().reconcile(apply_always)))
}
