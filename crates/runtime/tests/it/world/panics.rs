//! Tests that a panic in a world's code is a failure of one object or of one pass, and that nothing else stops.

use serde_json::json;

use super::fake_api::{CURSED, FakeApi, run, synced};
use crate::test_cluster::{TestCluster, Widget};

#[tokio::test(start_paused = true)]
async fn a_thing_nobody_can_look_at_is_one_objects_failure() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.adopt(|_, _| true)).await;
    lab.widget("w").await;
    lab.widget("cursed").await;
    yard.alter("cursed", |thing| thing.size = CURSED);
    yard.put("strange", CURSED, None);
    lab.pass(70).await;
    yard.alter("w", |thing| thing.size = 9);
    lab.pass(70).await;
    assert!(yard.things().contains(&"w=0".to_owned()), "others are still put right");
    assert!(running.metric("controller_runtime_reconcile_panics_total{controller=\"widget\"}").await > 0);
    assert!(lab.has_logged("a resource cannot be compared with the desired state"));
    yard.alter("cursed", |thing| thing.size = 1);
    lab.pass(600).await;
    assert_eq!(synced(&lab, "cursed").await.0, "True");
    lab.delete::<Widget>("w").await;
    assert_eq!(yard.things(), ["cursed=0".to_owned(), format!("strange={CURSED}")]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_panics_is_a_pass_that_failed() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    yard.switch(|switches| switches.is_cursed = true);
    lab.pass(130).await;
    lab.widget("w").await;
    assert_eq!(yard.things(), ["w=0"]);
    assert!(running.page("/readyz").await.contains("nobody can list this"));
    yard.switch(|switches| switches.is_cursed = false);
    lab.pass(130).await;
    assert!(running.page("/readyz").await.contains("[+] outside/yard ok"));
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_wishes_panic_fails_alone_and_keeps_what_it_has() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": CURSED}})).await;
    assert!(running.metric("controller_runtime_reconcile_panics_total{controller=\"widget\"}").await > 0);
    lab.widget("good").await;
    lab.pass(600).await;
    assert_eq!(yard.things(), ["good=0", "w=0"]);
    lab.patch::<Widget>("w", json!({"spec": {"size": 2}})).await;
    assert_eq!(yard.things(), ["good=0", "w=2"]);
}
