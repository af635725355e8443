//! A finalizer that is stored at the end of the first run, after an external resource has been created: an object that
//! is deleted earlier leaves the resource behind.

use std::collections::BTreeSet;

use homeostat::prelude::*;
use homeostat::sim::{Outside, Simulation};
use serde_json::json;

use crate::objects::{in_default, is_latest};

const FINALIZER: &str = "zoo.homeostat.dev/network";

/// Networks by the uid of their object.
pub(crate) type Networks = BTreeSet<String>;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Network", namespaced)]
pub(crate) struct NetworkSpec {
    range: String,
}

async fn make(network: &Network, cx: &Context<Network>, networks: &Outside<Networks>) -> Result<()> {
    let uid = network.uid().unwrap_or_default();
    let wanted = uid.clone();
    let is_there = networks.read("list networks", move |networks| networks.contains(&wanted)).await?;
    if !is_there && is_latest(cx).await? {
        networks.write("create network", move |networks| networks.insert(uid)).await?;
    }
    Ok(())
}

async fn take_away(network: &Network, networks: &Outside<Networks>) -> Result<()> {
    let uid = network.uid().unwrap_or_default();
    networks.write("delete network", move |networks| networks.remove(&uid)).await?;
    Ok(())
}

async fn finalizer_last(
    network: Arc<Network>,
    cx: Context<Network>,
    networks: Outside<Networks>,
) -> Result<Action> {
    let has_finalizer = network.finalizers().iter().any(|name| name == FINALIZER);
    if network.metadata.deletion_timestamp.is_some() {
        if has_finalizer {
            take_away(&network, &networks).await?;
            cx.patch(&*network, json!({"metadata": {"finalizers": null}})).await?;
        }
    } else if !has_finalizer {
        make(&network, &cx, &networks).await?;
        cx.patch(&*network, json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
    }
    Ok(Action::await_change())
}

async fn make_under_finalizer(
    network: Arc<Network>,
    cx: Context<Network>,
    networks: Outside<Networks>,
) -> Result<Action> {
    make(&network, &cx, &networks).await?;
    Ok(Action::await_change())
}

async fn cleanup(network: Arc<Network>, networks: Outside<Networks>) -> Result<Action> {
    take_away(&network, &networks).await?;
    Ok(Action::await_change())
}

fn operator(networks: BuiltController) -> Operator {
    Operator::new("networks.zoo.homeostat.dev").crd::<Network>().control(networks)
}

fn scenario(make: fn(Outside<Networks>) -> Operator) -> Simulation {
    let network = Network::new("office", NetworkSpec { range: "10.1.0.0/16".to_owned() });
    Simulation::with_outside(Networks::new(), make).given(in_default(network))
}

pub(super) fn broken() -> Simulation {
    scenario(|networks| {
        let reconcile = move |network, cx| finalizer_last(network, cx, networks.clone());
        operator(Controller::new().to_the_end().reconcile(reconcile))
    })
}

pub(super) fn cured() -> Simulation {
    scenario(|networks| {
        let other = networks.clone();
        let cleaned = Controller::new().cleanup(move |network, _| cleanup(network, other.clone()));
        operator(cleaned.reconcile(move |network, cx| make_under_finalizer(network, cx, networks.clone())))
    })
}
