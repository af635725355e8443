//! The four steps of the tutorial, on a control plane in this process, with time that passes only when nothing else does.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

use std::collections::BTreeMap;
use std::time::Duration;

use homeostat::core::{Clock, Entropy};
use homeostat::embedded::ControlPlane;
use homeostat::runtime::CancellationToken;
use homeostat_example_handlers::{
    Created, EphemeralVolumeClaim, EphemeralVolumeClaimSpec, POOL, VolumePool, VolumePoolSpec, operator,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

struct Tutorial {
    _plane: ControlPlane,
    claims: Api<EphemeralVolumeClaim>,
    volumes: Api<PersistentVolumeClaim>,
    pools: Api<VolumePool>,
}

impl Tutorial {
    async fn new() -> Self {
        let clock = Clock::virtual_from(jiff::Timestamp::from_second(1_800_000_000).unwrap());
        let builder = ControlPlane::builder().time_and_chance(clock, Entropy::seeded(1));
        let plane = builder.start().await.unwrap();
        let client = plane.client();
        let operator = operator().time_and_chance(clock, Entropy::seeded(2));
        tokio::spawn(operator.run_on(client.clone(), CancellationToken::new()));
        rest().await;
        let (claims, volumes) =
            (Api::default_namespaced(client.clone()), Api::default_namespaced(client.clone()));
        Self { _plane: plane, claims, volumes, pools: Api::default_namespaced(client) }
    }

    /// What the claims of a pool say, and how many they are.
    async fn pool(&self, name: &str) -> (Vec<String>, usize) {
        let status = self.pools.get(name).await.unwrap().status.unwrap_or_default();
        let said = status.children.iter().map(|(claim, size)| format!("{claim} {size}"));
        (said.collect(), status.claims)
    }

    async fn create(&self, size: &str) {
        let claim = EphemeralVolumeClaim::new("my-claim", EphemeralVolumeClaimSpec { size: size.to_owned() });
        self.claims.create(&PostParams::default(), &claim).await.unwrap();
        rest().await;
    }

    async fn patch(&self, patch: Value) {
        self.claims.patch("my-claim", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        rest().await;
    }

    async fn volume(&self) -> Option<PersistentVolumeClaim> {
        self.volumes.get_opt("my-claim").await.unwrap()
    }

    /// The condition `Handled`: status, reason, message.
    async fn handled(&self) -> [String; 3] {
        let status = self.claims.get("my-claim").await.unwrap().status.unwrap();
        let found = status.base.conditions.into_iter().find(|one| one.type_ == "Handled").unwrap();
        [found.status, found.reason, found.message]
    }

    async fn size(&self) -> String {
        let spec = self.volume().await.unwrap().spec.unwrap();
        spec.resources.unwrap().requests.unwrap()["storage"].0.clone()
    }
}

/// Waits until everything waits.
async fn rest() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn step_1_a_claim_gets_its_volume() {
    let tutorial = Tutorial::new().await;
    tutorial.create("1G").await;
    assert_eq!(tutorial.size().await, "1G");
    let status = tutorial.claims.get("my-claim").await.unwrap().status.unwrap();
    assert_eq!(status.create, Some(Created { pvc_name: "my-claim".into() }));
}

#[tokio::test(start_paused = true)]
async fn step_1_without_a_size_there_is_none_until_it_is_set() {
    let tutorial = Tutorial::new().await;
    tutorial.create("").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(tutorial.volume().await.is_none());
    assert_eq!(tutorial.handled().await, ["False", "GaveUp", "create: spec.size must be set"]);
    tutorial.patch(json!({"spec": {"size": "1G"}})).await;
    assert_eq!(tutorial.size().await, "1G");
    assert_eq!(tutorial.handled().await, ["True", "Succeeded", ""]);
}

#[tokio::test(start_paused = true)]
async fn step_2_the_volume_follows_the_size() {
    let tutorial = Tutorial::new().await;
    tutorial.create("1G").await;
    tutorial.patch(json!({"spec": {"size": "2G"}})).await;
    assert_eq!(tutorial.size().await, "1G", "Kubernetes resizes bound volumes only");
    // There is no provisioner here: we do its part.
    let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    tutorial.volumes.patch_status("my-claim", &PatchParams::default(), &bound).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(tutorial.size().await, "2G", "the handler was tried again");
}

#[tokio::test(start_paused = true)]
async fn step_3_labels_are_passed_on_by_their_difference() {
    let tutorial = Tutorial::new().await;
    tutorial.create("1G").await;
    let foreign = json!({"metadata": {"labels": {"foreign": "kept"}}});
    tutorial.volumes.patch("my-claim", &PatchParams::default(), &Patch::Merge(foreign)).await.unwrap();
    let check = async |labels: Value, expected: &[(&str, &str)]| {
        tutorial.patch(json!({"metadata": {"labels": labels}})).await;
        let expected: BTreeMap<_, _> = expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(tutorial.volume().await.unwrap().labels(), &expected);
    };
    check(
        json!({"application": "kopf", "owner": "me"}),
        &[("application", "kopf"), ("foreign", "kept"), ("owner", "me")],
    )
    .await;
    check(json!({"application": null, "owner": "you"}), &[("foreign", "kept"), ("owner", "you")]).await;
}

#[tokio::test(start_paused = true)]
async fn step_4_the_volume_goes_with_its_claim() {
    let tutorial = Tutorial::new().await;
    tutorial.create("1G").await;
    assert!(tutorial.claims.get("my-claim").await.unwrap().finalizers().is_empty(), "ownership needs none");
    tutorial.claims.delete("my-claim", &DeleteParams::default()).await.unwrap();
    rest().await;
    assert!(tutorial.volume().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn step_5_claims_report_to_their_pool_until_they_leave_it() {
    let tutorial = Tutorial::new().await;
    for name in ["one", "two"] {
        let pool = VolumePool::new(name, VolumePoolSpec {});
        tutorial.pools.create(&PostParams::default(), &pool).await.unwrap();
    }
    tutorial.create("1G").await;
    let mut other = EphemeralVolumeClaim::new("other", EphemeralVolumeClaimSpec { size: "5G".to_owned() });
    other.labels_mut().insert(POOL.to_owned(), "one".to_owned());
    tutorial.claims.create(&PostParams::default(), &other).await.unwrap();
    let label = |pool: &str| json!({"metadata": {"labels": {POOL: pool}}});
    tutorial.patch(label("one")).await;
    assert_eq!(tutorial.pool("one").await, (vec!["my-claim 1G".to_owned(), "other 5G".to_owned()], 2));
    tutorial.patch(label("two")).await;
    assert_eq!(tutorial.pool("one").await, (vec!["other 5G".to_owned()], 1));
    assert_eq!(tutorial.pool("two").await, (vec!["my-claim 1G".to_owned()], 1));
    tutorial.claims.delete("my-claim", &DeleteParams::default()).await.unwrap();
    rest().await;
    assert_eq!(tutorial.pool("two").await, (vec![], 0));
    assert!(tutorial.claims.get_opt("my-claim").await.unwrap().is_none());
}
