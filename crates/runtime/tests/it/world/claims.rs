//! Tests that claims are only as good as the evidence: another object's record, a create that may never have happened,
//! an owner that only the server knows, a lagging read. None of these makes a resource change or lose its owner.

use std::time::Duration;

use homeostat_runtime::world::{OutsideRecord, Ownership};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

use super::fake_api::{FakeApi, Moment, named, ownerships, run, synced};
use crate::degraded::lab_that_accepts_anything;
use crate::test_cluster::{TestCluster, Widget, WidgetSpec};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a widget that desires this resource.
async fn wisher(lab: &TestCluster, name: &str, thing: &str, size: i64) {
    lab.create(&Widget::new(name, WidgetSpec { size, config: Some(thing.into()) })).await;
}

/// Writes a size of any type to a widget.
async fn resize(lab: &TestCluster, name: &str, size: serde_json::Value) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("test.dev", "v1", "Widget"));
    let api: Api<DynamicObject> = Api::namespaced_with(lab.client.clone(), "default", &kind);
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
    lab.rest().await;
}

#[tokio::test(start_paused = true)]
async fn who_never_had_a_thing_takes_no_record_along() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    lab.widget("z").await;
    wisher(&lab, "a", "z", 4).await;
    assert_eq!(synced(&lab, "a").await.1, "Conflict");
    lab.delete::<Widget>("a").await;
    assert_eq!(lab.names::<Widget>().await, ["z"]);
    assert_eq!(lab.names::<OutsideRecord>().await.len(), 1);
    yard.alter("z", |thing| thing.size = 9);
    lab.pass(70).await;
    assert_eq!(yard.things(), ["z=0"], "its drift is still put right");
    lab.delete::<Widget>("z").await;
    assert!(yard.things().is_empty());
    assert!(lab.names::<OutsideRecord>().await.is_empty());
}

/// A widget whose create was never sent and that was then recreated, while a resource of this size appeared under its
/// name.
async fn made_anew_beside(size: i64) -> (TestCluster, FakeApi) {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.fate.seal(3, Moment::Before);
    let running = run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    lab.widget("w").await;
    assert!(yard.fate.has_struck(), "list, get, create");
    running.kill();
    yard.fate.lift();
    yard.put("w", size, None);
    lab.patch::<Widget>("w", json!({"metadata": {"finalizers": null}})).await;
    lab.delete::<Widget>("w").await;
    lab.widget("w").await;
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    lab.pass(200).await;
    (lab, yard)
}

#[tokio::test(start_paused = true)]
async fn what_a_vanished_object_never_made_is_not_taken_over_and_not_deleted() {
    let (lab, yard) = made_anew_beside(7).await;
    assert_eq!(synced(&lab, "w").await.1, "Conflict");
    assert_eq!(yard.things(), ["w=7"]);
    lab.delete::<Widget>("w").await;
    lab.pass(600).await;
    assert_eq!(yard.things(), ["w=7"], "it was somebody else's all along");
    assert!(lab.names::<Widget>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_vanished_object_meant_to_make_is_inherited() {
    let (lab, yard) = made_anew_beside(0).await;
    assert_eq!(synced(&lab, "w").await.0, "True");
    lab.delete::<Widget>("w").await;
    assert!(yard.things().is_empty());
    assert!(lab.names::<OutsideRecord>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_decode_keeps_its_thing() {
    // If two widgets are created in the same second, which may happen on a server with its own clock, the first by name
    // gets a prefixed resource.
    for ownership in ownerships() {
        let (mut lab, yard) = (lab_that_accepts_anything().await, FakeApi::new());
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("a").await;
        lab.pass(2).await;
        wisher(&lab, "z", "a", 4).await;
        resize(&lab, "a", json!("seven")).await;
        lab.pass(200).await;
        let own = [format!("{}=0", named(&ownership, "a"))];
        assert_eq!(yard.things(), own, "{ownership:?}");
        assert_eq!(synced(&lab, "z").await.1, "Conflict", "{ownership:?}");
        lab.delete::<Widget>("z").await;
        lab.pass(600).await;
        assert_eq!(yard.things(), own, "{ownership:?}");
        resize(&lab, "a", json!(3)).await;
        assert_eq!(yard.things(), [format!("{}=3", named(&ownership, "a"))], "{ownership:?}");
        assert_eq!(synced(&lab, "a").await.0, "True", "{ownership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_only_the_server_knows_keeps_its_thing() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.put("late", 0, Some("others.dev/default/x/1"));
    run(&mut lab, &yard, |outside| outside).await;
    wisher(&lab, "a", "late", 4).await;
    // From now on the watch is wrong: it stays open but reports nothing, so the cache considers itself current.
    lab.faults.mute();
    let uid = lab.widget("late").await.metadata.uid.unwrap();
    yard.alter("late", |thing| thing.mark = Some(format!("widgets.test.dev/default/late/{uid}")));
    yard.writes();
    lab.pass(200).await;
    assert_eq!(yard.writes(), [] as [&str; 0]);
    assert_eq!(synced(&lab, "a").await.2, "late belongs to test.dev/widgets/default/late");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_lags_does_not_make_a_thing_doubtful() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records).visible_within(3 * SECOND)).await;
    lab.pass(20).await;
    lab.widget("w").await;
    lab.pass(8).await;
    yard.switch(|switches| switches.lag = 12 * SECOND);
    lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
    assert_eq!(yard.writes(), ["create w", "create w"], "it showed nothing, and the name was taken");
    yard.switch(|switches| switches.lag = Duration::ZERO);
    lab.pass(30).await;
    assert_eq!(yard.things(), ["w=5"]);
    assert_eq!(synced(&lab, "w").await.0, "True");
    lab.delete::<Widget>("w").await;
    assert!(yard.things().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_newer_intent_does_not_hide_an_older_one_that_was_carried_out() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    lab.pass(20).await;
    yard.fate.seal(3, Moment::After);
    let settle = 3 * SECOND;
    let running =
        run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records).visible_within(settle)).await;
    lab.widget("w").await;
    assert!(yard.fate.has_struck(), "list, get, create");
    running.kill();
    yard.fate.lift();
    lab.patch::<Widget>("w", json!({"spec": {"size": 5}})).await;
    lab.pass(8).await;
    yard.switch(|switches| switches.lag = 12 * SECOND);
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records).visible_within(settle)).await;
    assert_eq!(yard.writes(), ["create w", "create w"]);
    yard.switch(|switches| switches.lag = Duration::ZERO);
    lab.pass(30).await;
    assert_eq!(yard.things(), ["w=5"]);
    assert_eq!(synced(&lab, "w").await.0, "True");
}
