//! Members are removed when there are more than desired. After a restart, the cache may show an older, smaller number,
//! and the data of a member that is desired again is deleted.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use serde_json::json;

use crate::objects::{api, in_default, is_latest};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Ensemble", namespaced)]
pub(crate) struct EnsembleSpec {
    members: usize,
}

fn volume_name(member: usize) -> String {
    format!("data-{member}")
}

fn volume(member: usize) -> Result<PersistentVolumeClaim> {
    Ok(from_json(&json!({
        "metadata": {"name": volume_name(member)},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }))?)
}

async fn make_wanted(ensemble: &Ensemble, cx: &Context<Ensemble>) -> Result<()> {
    for member in 0..ensemble.spec.members {
        cx.apply(volume(member)?).await?;
    }
    Ok(())
}

/// Returns the volumes of members that are no longer desired.
fn surplus(ensemble: &Ensemble, cx: &Context<Ensemble>) -> Result<Vec<Arc<PersistentVolumeClaim>>> {
    let wanted: Vec<String> = (0..ensemble.spec.members).map(volume_name).collect();
    let mut volumes = cx.owned::<PersistentVolumeClaim>()?;
    volumes.retain(|volume| !wanted.contains(&volume.name_any()));
    Ok(volumes)
}

async fn trust_the_cache(ensemble: Arc<Ensemble>, cx: Context<Ensemble>) -> Result<Action> {
    make_wanted(&ensemble, &cx).await?;
    for volume in surplus(&ensemble, &cx)? {
        api::<_, PersistentVolumeClaim>(&cx).delete(&volume.name_any(), &DeleteParams::default()).await?;
    }
    Ok(Action::await_change())
}

async fn ask_before_deleting(ensemble: Arc<Ensemble>, cx: Context<Ensemble>) -> Result<Action> {
    make_wanted(&ensemble, &cx).await?;
    let surplus = surplus(&ensemble, &cx)?;
    if !surplus.is_empty() && is_latest(&cx).await? {
        for volume in surplus {
            cx.delete(&*volume).await?;
        }
    }
    Ok(Action::await_change())
}

fn ensembles() -> Controller<Ensemble> {
    Controller::new().owns::<PersistentVolumeClaim>()
}

fn operator(ensembles: BuiltController) -> Operator {
    Operator::new("ensembles.zoo.homeostat.dev").crd::<Ensemble>().control(ensembles)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Ensemble::new("main", EnsembleSpec { members: 2 })))
        .then(edit::<Ensemble>("main", |ensemble| ensemble.spec.members = 1))
        .then(edit::<Ensemble>("main", |ensemble| ensemble.spec.members = 2))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(ensembles().reconcile(trust_the_cache)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(ensembles().reconcile(ask_before_deleting)))
}
