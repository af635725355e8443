//! Tests objects with invalid specs: `Synced` reports that, and their resources are left as they are.

use homeostat_runtime::world::Ownership;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::fake_api::{CURSED, FakeApi, named, ownerships, run, synced};
use crate::degraded::lab_that_accepts_anything;
use crate::test_cluster::{TestCluster, Widget, WidgetSpec};

fn raw(lab: &TestCluster) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Widget"));
    Api::namespaced_with(lab.client.clone(), "default", &kind)
}

/// Returns status, reason and generation of the condition `Synced`, and the generation of the object.
async fn verdict(lab: &TestCluster, name: &str) -> [Value; 4] {
    let object = raw(lab).get(name).await.unwrap();
    let conditions = object.data["status"]["conditions"].as_array().unwrap();
    let synced = conditions.iter().find(|one| one["type"] == "Synced").unwrap();
    let field = |name: &str| synced[name].clone();
    let generation = json!(object.metadata.generation);
    assert_eq!(object.data["status"]["observedGeneration"], generation);
    [field("status"), field("reason"), field("observedGeneration"), generation]
}

async fn spoil(lab: &TestCluster, name: &str, size: Value) {
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    raw(lab).patch(name, &PatchParams::default(), &patch).await.unwrap();
    lab.rest().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_wishes_make_no_sense_says_so_from_the_start_and_later() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.create(&Widget::new("new", WidgetSpec { size: -1, config: None })).await;
        assert_eq!(verdict(&lab, "new").await, [json!("False"), json!("Invalid"), json!(1), json!(1)]);
        assert_eq!(synced(&lab, "new").await.2, "size is negative");
        lab.widget("old").await;
        assert_eq!(synced(&lab, "old").await.0, "True");
        spoil(&lab, "old", json!(-1)).await;
        assert_eq!(verdict(&lab, "old").await, [json!("False"), json!("Invalid"), json!(2), json!(2)]);
        lab.pass(3600).await;
        assert_eq!(yard.things(), [format!("{}=0", named(&ownership, "old"))], "it keeps what it has");
        spoil(&lab, "old", json!(3)).await;
        assert_eq!(verdict(&lab, "old").await, [json!("True"), json!("InSync"), json!(3), json!(3)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_says_so_and_keeps_what_it_has() {
    for ownership in ownerships() {
        let (mut lab, yard) = (lab_that_accepts_anything().await, FakeApi::new());
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        lab.widget("other").await;
        assert_eq!(synced(&lab, "w").await.0, "True");
        spoil(&lab, "w", json!("many")).await;
        let fallen = [json!("False"), json!("Undecodable"), json!(2), json!(2)];
        assert_eq!(verdict(&lab, "w").await, fallen, "{ownership:?}");
        lab.pass(3600).await;
        assert_eq!(yard.things().len(), 2, "what it has is no leak");
        assert_eq!(verdict(&lab, "w").await, fallen);
        assert_eq!(synced(&lab, "other").await.0, "True");
        spoil(&lab, "w", json!(4)).await;
        assert_eq!(verdict(&lab, "w").await, [json!("True"), json!("InSync"), json!(3), json!(3)]);
        assert!(yard.things().contains(&format!("{}=4", named(&ownership, "w"))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_worlds_code_leaves_nothing_in_sync() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Tags)).await;
    lab.widget("wish").await;
    spoil(&lab, "wish", json!(CURSED)).await;
    assert_eq!(synced(&lab, "wish").await.1, "Invalid");
    lab.widget("sight").await;
    yard.alter("sight", |thing| thing.size = CURSED);
    lab.pass(70).await;
    assert_eq!(synced(&lab, "sight").await.1, "Panicked");
    yard.alter("sight", |thing| thing.size = 1);
    lab.pass(600).await;
    assert_eq!(synced(&lab, "sight").await.0, "True");
}
