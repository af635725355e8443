//! Data that is found by the name of its owner. An object with the same name replaces a deleted one; a reconciler that
//! is still handling the deletion of the first deletes the data of the second.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, create, delete};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use crate::objects::{api, create_if_missing, in_default, is_latest};

const NAME: &str = "zoo.homeostat.dev/database";
const UID: &str = "zoo.homeostat.dev/database-uid";

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Database", namespaced)]
pub(crate) struct DatabaseSpec {
    size: String,
}

/// The data of a database. It has no owner, so that deleting the database by mistake does not delete it.
fn volume(database: &Database) -> Result<PersistentVolumeClaim> {
    Ok(from_json(&json!({
        "metadata": {
            "name": format!("data-{}", database.name_any()),
            "namespace": database.namespace(),
            "labels": {NAME: database.name_any(), UID: database.uid()},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": database.spec.size}},
        },
    }))?)
}

async fn reconcile(database: Arc<Database>, cx: Context<Database>) -> Result<Action> {
    let volume = volume(&database)?;
    if cx.get::<PersistentVolumeClaim>(&*volume.name_any())?.is_none() && is_latest(&cx).await? {
        create_if_missing(&api(&cx), &volume).await?;
    }
    Ok(Action::await_change())
}

async fn delete_by_name(database: Arc<Database>, cx: Context<Database>) -> Result<Action> {
    let volumes = api::<_, PersistentVolumeClaim>(&cx);
    let of_name = ListParams::default().labels(&format!("{NAME}={}", database.name_any()));
    for volume in volumes.list(&of_name).await? {
        volumes.delete(&volume.name_any(), &DeleteParams::default()).await?;
    }
    Ok(Action::await_change())
}

async fn delete_by_uid(database: Arc<Database>, cx: Context<Database>) -> Result<Action> {
    let volumes = api::<_, PersistentVolumeClaim>(&cx);
    let of_uid = ListParams::default().labels(&format!("{UID}={}", database.uid().unwrap_or_default()));
    for volume in volumes.list(&of_uid).await? {
        cx.delete(&volume).await?;
    }
    Ok(Action::await_change())
}

fn databases() -> Controller<Database> {
    Controller::new()
        .watches::<PersistentVolumeClaim, _>(|volume| volume.labels().get(NAME).cloned())
        .writes::<PersistentVolumeClaim>()
}

fn operator(databases: BuiltController) -> Operator {
    Operator::new("databases.zoo.homeostat.dev").crd::<Database>().control(databases)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    let database = in_default(Database::new("orders", DatabaseSpec { size: "1Gi".to_owned() }));
    Simulation::new(make).given(database.clone()).then(delete::<Database>("orders")).then(create(database))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(databases().cleanup(delete_by_name).reconcile(reconcile)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(databases().cleanup(delete_by_uid).reconcile(reconcile)))
}
