//! A lock that outlives its holder: after a crash the lock still exists and is mistaken for another holder's.

use homeostat::prelude::*;
use homeostat::sim::{Simulation, edit};
use kube::api::{DeleteParams, PostParams};

use crate::objects::{api, config_map, data_of, in_default, is_latest, owned_by};

const LOCK: &str = "release-lock";
const AGAIN: Duration = Duration::from_secs(5);

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(group = "zoo.homeostat.dev", version = "v1", kind = "Release", namespaced)]
pub(crate) struct ReleaseSpec {
    version: String,
}

fn lock(release: &Release) -> ConfigMap {
    owned_by(release, config_map(LOCK, "holder", release.uid().unwrap_or_default()))
}

fn is_deployed(release: &Release, cx: &Context<Release>) -> Result<bool> {
    let deployed = cx.get::<ConfigMap>(&*release.name_any())?;
    Ok(deployed.is_some_and(|deployed| data_of(&deployed, "version") == release.spec.version))
}

/// Takes the lock if it is free. Returns whether it was already held.
async fn take_lock(release: &Release, cx: &Context<Release>) -> Result<bool> {
    match api(cx).create(&PostParams::default(), &lock(release)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(true),
        created => Ok(created.map(|_| false)?),
    }
}

async fn wait_for_the_lock(release: Arc<Release>, cx: Context<Release>) -> Result<Action> {
    if is_deployed(&release, &cx)? {
        return Ok(Action::await_change());
    }
    if take_lock(&release, &cx).await? {
        return Ok(Action::requeue(AGAIN));
    }
    cx.apply(config_map(&release.name_any(), "version", &*release.spec.version)).await?;
    api::<_, ConfigMap>(&cx).delete(LOCK, &DeleteParams::default()).await?;
    Ok(Action::await_change())
}

/// Recognizes its own lock: one with this holder's name was taken in an earlier run.
async fn know_the_own_lock(release: Arc<Release>, cx: Context<Release>) -> Result<Action> {
    if is_deployed(&release, &cx)? {
        if let Some(lock) = cx.get::<ConfigMap>(LOCK)?
            && data_of(&lock, "holder") == release.uid().unwrap_or_default()
            && is_latest(&cx).await?
        {
            cx.delete(&*lock).await?;
        }
        return Ok(Action::await_change());
    }
    if take_lock(&release, &cx).await? {
        let taken = api::<_, ConfigMap>(&cx).get_opt(LOCK).await?;
        if taken.is_none_or(|lock| data_of(&lock, "holder") != release.uid().unwrap_or_default()) {
            return Ok(Action::requeue(AGAIN));
        }
    }
    cx.apply(config_map(&release.name_any(), "version", &*release.spec.version)).await?;
    Ok(Action::requeue(AGAIN))
}

fn releases() -> Controller<Release> {
    Controller::new().owns::<ConfigMap>()
}

fn operator(releases: BuiltController) -> Operator {
    Operator::new("releases.zoo.homeostat.dev").crd::<Release>().control(releases)
}

fn scenario(make: fn() -> Operator) -> Simulation {
    Simulation::new(make)
        .given(in_default(Release::new("shop", ReleaseSpec { version: "1".to_owned() })))
        .then(edit::<Release>("shop", |release| release.spec.version = "2".into()))
}

pub(super) fn broken() -> Simulation {
    scenario(|| operator(releases().reconcile(wait_for_the_lock)))
}

pub(super) fn cured() -> Simulation {
    scenario(|| operator(releases().reconcile(know_the_own_lock)))
}
