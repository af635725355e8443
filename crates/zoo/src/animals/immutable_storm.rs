//! A change to an immutable field: the write is refused and retried forever.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};
use serde_json::json;

use crate::objects::{api, create_if_missing, in_default, is_latest, owned_by};

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Migration", namespaced)]
pub(crate) struct MigrationSpec {
    image: String,
}

fn job(migration: &Migration) -> Result<Job> {
    Ok(from_json(&json!({
        "metadata": {"name": migration.name_any()},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "migrate", "image": migration.spec.image}],
                },
            },
        },
    }))?)
}

fn image(job: &Job) -> Option<&str> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.as_deref()
}

async fn apply_over_it(migration: Arc<Migration>, cx: Context<Migration>) -> Result<Action> {
    cx.apply(job(&migration)?).await?;
    Ok(Action::await_change())
}

async fn make_anew(migration: Arc<Migration>, cx: Context<Migration>) -> Result<Action> {
    match cx.get::<Job>(&*migration.name_any())? {
        None if is_latest(&cx).await? => {
            create_if_missing(&api(&cx), &owned_by(&*migration, job(&migration)?)).await?;
        }
        Some(job) if image(&job) != Some(&*migration.spec.image) && is_latest(&cx).await? => {
            cx.delete(&*job).await?;
        }
        _ => {}
    }
    Ok(Action::await_change())
}

fn migrations() -> Controller<Migration> {
    Controller::new().owns::<Job>()
}

fn operator(migrations: BuiltController) -> Operator {
    Operator::new("migrations.zoo.homeostat.dev").crd::<Migration>().control(migrations)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Migration::new("orders", MigrationSpec { image: "migrate:1".to_owned() })))
        .then(edit::<Migration>("orders", |migration| migration.spec.image = "migrate:2".into()))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(migrations().reconcile(apply_over_it)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(migrations().reconcile(make_anew)))
}
