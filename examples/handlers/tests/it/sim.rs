//! The tutorial under the simulator: whatever goes wrong, volumes and pools match the claims.

use homeostat::prelude::*;
use homeostat::sim::{Budget, Cluster, Simulation, delete, edit};
use homeostat_example_handlers::{
    EphemeralVolumeClaim, EphemeralVolumeClaimSpec, POOL, VolumePool, VolumePoolSpec, operator,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// A sample of the single faults, as many as an unoptimized build can run in a few seconds. `HOMEOSTAT_SIM_SCHEDULES`
/// runs more.
const BUDGET: Budget = Budget { schedules: 60, seconds: 3600 };

/// Binds every volume claim: only bound ones may be resized.
fn provisioner() -> Operator {
    let claims = Controller::<PersistentVolumeClaim>::new().reconcile(|claim, cx| async move {
        let is_bound = claim.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"));
        if !is_bound {
            let api: Api<PersistentVolumeClaim> = Api::namespaced(cx.client().clone(), cx.key().namespace());
            let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
            api.patch_status(&claim.name_any(), &PatchParams::default(), &bound).await?;
        }
        Ok(Action::await_change())
    });
    Operator::new("provisioner.demo.dev").control(claims)
}

fn claim(name: &str) -> EphemeralVolumeClaim {
    EphemeralVolumeClaim::new(name, EphemeralVolumeClaimSpec { size: "1G".to_owned() })
}

fn claim_of(pool: &str, name: &str) -> EphemeralVolumeClaim {
    let mut claim = claim(name);
    claim.labels_mut().insert(POOL.to_owned(), pool.to_owned());
    claim
}

fn size(cluster: &Cluster, name: &str) -> Option<String> {
    let spec = cluster.get::<PersistentVolumeClaim>(name)?.spec?;
    Some(spec.resources?.requests?.get("storage")?.0.clone())
}

/// Returns whether every claim has a volume of its size. Also holds after fewer steps, so that a failure can be shrunk.
fn all_have_their_size(cluster: &Cluster) -> bool {
    let claims = cluster.list::<EphemeralVolumeClaim>();
    claims.iter().all(|claim| size(cluster, &claim.name_any()).as_deref() == Some(&claim.spec.size))
}

#[test]
fn a_volume_follows_its_claim_whatever_goes_wrong() {
    Simulation::new(operator)
        .beside(provisioner)
        .given(claim("home"))
        .then(edit::<EphemeralVolumeClaim>("home", |claim| claim.spec.size = "2G".into()))
        .then(edit::<EphemeralVolumeClaim>("home", |claim| {
            claim.labels_mut().insert("owner".to_owned(), "me".to_owned());
        }))
        .eventually(all_have_their_size)
        .budget(BUDGET)
        .check();
}

#[test]
fn a_pool_counts_its_claims_whatever_goes_wrong() {
    let claims =
        |cluster: &Cluster, pool: &str| cluster.get::<VolumePool>(pool)?.status.map(|status| status.claims);
    Simulation::new(operator)
        .beside(provisioner)
        .given(VolumePool::new("one", VolumePoolSpec {}))
        .given(VolumePool::new("two", VolumePoolSpec {}))
        .given(claim_of("one", "home"))
        .given(claim_of("one", "other"))
        .then(edit::<EphemeralVolumeClaim>("home", |claim| {
            claim.labels_mut().insert(POOL.to_owned(), "two".to_owned());
        }))
        .then(delete::<EphemeralVolumeClaim>("other"))
        .eventually(move |cluster| claims(cluster, "one") == Some(0) && claims(cluster, "two") == Some(1))
        .budget(BUDGET)
        .check();
}
