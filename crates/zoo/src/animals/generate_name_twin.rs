//! Looks up its one child, which has a generated name, in the cache. The runtime remembers the child that it just
//! created, but a new process does not: it creates a twin if its first list is stale.

use homeostat::prelude::*;
use homeostat::sim::Simulation;

use crate::objects::{config_map, in_default};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Tree", namespaced)]
pub(crate) struct TreeSpec {
    leaf: String,
}

async fn make_unless_listed(tree: Arc<Tree>, cx: Context<Tree>) -> Result<Action> {
    if cx.owned::<ConfigMap>()?.is_empty() {
        let mut root = config_map("", "leaf", &*tree.spec.leaf);
        root.metadata.name = None;
        root.metadata.generate_name = Some("root-".to_owned());
        let _: Arc<ConfigMap> = cx.create(root).await?;
    }
    Ok(Action::await_change())
}

async fn apply_by_name(tree: Arc<Tree>, cx: Context<Tree>) -> Result<Action> {
    cx.apply(config_map(&format!("root-{}", tree.name_any()), "leaf", &*tree.spec.leaf)).await?;
    Ok(Action::await_change())
}

fn trees() -> Controller<Tree> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(trees: BuiltController) -> Operator {
    Operator::new("trees.zoo.homeostat.dev").crd::<Tree>().control(trees)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make).given(in_default(Tree::new("oak", TreeSpec { leaf: "green".to_owned() })))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(trees().reconcile(make_unless_listed)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(trees().reconcile(apply_by_name)))
}
