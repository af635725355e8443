//! The steps of the tutorial, on a control plane in this process, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may fall over its own mistakes")]

mod sim;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use homeostat::testing::Cluster;
use homeostat_example_handlers::{
    Created, EphemeralVolumeClaim, EphemeralVolumeClaimSpec, POOL, VolumePool, VolumePoolSpec, operator,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::{Value, json};

struct Tutorial(Cluster);

impl Deref for Tutorial {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

impl Tutorial {
    async fn new() -> Self {
        let cluster = Cluster::start().await;
        cluster.run(operator());
        cluster.settle().await;
        Self(cluster)
    }

    /// Returns the reports of the claims of a pool, and their number.
    async fn pool(&self, name: &str) -> (Vec<String>, usize) {
        let status = self.get::<VolumePool>(name).await.status.unwrap_or_default();
        let said = status.children.iter().map(|(claim, size)| format!("{claim} {size}"));
        (said.collect(), status.claims)
    }

    async fn claim(&self, size: &str) {
        let spec = EphemeralVolumeClaimSpec { size: size.to_owned() };
        self.create(EphemeralVolumeClaim::new("my-claim", spec)).await;
        self.settle().await;
    }

    async fn edit(&self, patch: Value) {
        self.patch::<EphemeralVolumeClaim>("my-claim", patch).await;
        self.settle().await;
    }

    async fn volume(&self) -> Option<PersistentVolumeClaim> {
        self.get_opt("my-claim").await
    }

    /// Returns status, reason and message of the condition `Handled`.
    async fn handled(&self) -> [String; 3] {
        let status = self.get::<EphemeralVolumeClaim>("my-claim").await.status.unwrap();
        let found = status.base.conditions.into_iter().find(|one| one.type_ == "Handled").unwrap();
        [found.status, found.reason, found.message]
    }

    async fn size(&self) -> String {
        let spec = self.volume().await.unwrap().spec.unwrap();
        spec.resources.unwrap().requests.unwrap()["storage"].0.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn step_1_a_claim_gets_its_volume() {
    let tutorial = Tutorial::new().await;
    tutorial.claim("1G").await;
    assert_eq!(tutorial.size().await, "1G");
    let status = tutorial.get::<EphemeralVolumeClaim>("my-claim").await.status.unwrap();
    assert_eq!(status.create, Some(Created { pvc_name: "my-claim".into() }));
}

#[tokio::test(start_paused = true)]
async fn step_1_without_a_size_there_is_none_until_it_is_set() {
    let tutorial = Tutorial::new().await;
    tutorial.claim("").await;
    tutorial.pass(Duration::from_secs(3600)).await;
    assert!(tutorial.volume().await.is_none());
    assert_eq!(tutorial.handled().await, ["False", "GaveUp", "create: spec.size must be set"]);
    tutorial.edit(json!({"spec": {"size": "1G"}})).await;
    assert_eq!(tutorial.size().await, "1G");
    assert_eq!(tutorial.handled().await, ["True", "Succeeded", ""]);
}

#[tokio::test(start_paused = true)]
async fn step_2_the_volume_follows_the_size() {
    let tutorial = Tutorial::new().await;
    tutorial.claim("1G").await;
    tutorial.edit(json!({"spec": {"size": "2G"}})).await;
    assert_eq!(tutorial.size().await, "1G", "Kubernetes resizes bound volumes only");
    // There is no provisioner here, so the test does its part.
    tutorial.patch_status::<PersistentVolumeClaim>("my-claim", json!({"phase": "Bound"})).await;
    tutorial.pass(Duration::from_secs(30)).await;
    assert_eq!(tutorial.size().await, "2G", "the handler was tried again");
}

#[tokio::test(start_paused = true)]
async fn step_3_labels_are_passed_on_by_their_difference() {
    let tutorial = Tutorial::new().await;
    tutorial.claim("1G").await;
    let foreign = json!({"metadata": {"labels": {"foreign": "kept"}}});
    tutorial.patch::<PersistentVolumeClaim>("my-claim", foreign).await;
    let check = async |labels: Value, expected: &[(&str, &str)]| {
        tutorial.edit(json!({"metadata": {"labels": labels}})).await;
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
    tutorial.claim("1G").await;
    assert!(
        tutorial.get::<EphemeralVolumeClaim>("my-claim").await.finalizers().is_empty(),
        "ownership needs none"
    );
    tutorial.delete::<EphemeralVolumeClaim>("my-claim").await;
    tutorial.settle().await;
    assert!(tutorial.volume().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn step_5_claims_report_to_their_pool_until_they_leave_it() {
    let tutorial = Tutorial::new().await;
    for name in ["one", "two"] {
        tutorial.create(VolumePool::new(name, VolumePoolSpec {})).await;
    }
    tutorial.claim("1G").await;
    let mut other = EphemeralVolumeClaim::new("other", EphemeralVolumeClaimSpec { size: "5G".to_owned() });
    other.labels_mut().insert(POOL.to_owned(), "one".to_owned());
    tutorial.create(other).await;
    let label = |pool: &str| json!({"metadata": {"labels": {POOL: pool}}});
    tutorial.edit(label("one")).await;
    assert_eq!(tutorial.pool("one").await, (vec!["my-claim 1G".to_owned(), "other 5G".to_owned()], 2));
    tutorial.edit(label("two")).await;
    assert_eq!(tutorial.pool("one").await, (vec!["other 5G".to_owned()], 1));
    assert_eq!(tutorial.pool("two").await, (vec!["my-claim 1G".to_owned()], 1));
    tutorial.delete::<EphemeralVolumeClaim>("my-claim").await;
    tutorial.settle().await;
    assert_eq!(tutorial.pool("two").await, (vec![], 0));
    assert!(tutorial.get_opt::<EphemeralVolumeClaim>("my-claim").await.is_none());
}
