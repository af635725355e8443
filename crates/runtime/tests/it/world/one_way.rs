//! Tests that desired resources are created, changed and deleted in the API, and no call is made twice.

use homeostat_runtime::world::Ownership;
use serde_json::json;

use super::fake_api::{FakeApi, named, ownerships, run, synced};
use crate::test_cluster::{TestCluster, Widget};

#[tokio::test(start_paused = true)]
async fn created_changed_deleted_in_every_ownership() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        let name = named(&ownership, "w");
        lab.widget("w").await;
        assert_eq!(yard.things(), [format!("{name}=0")], "{ownership:?}");
        assert_eq!(synced(&lab, "w").await.0, "True");
        lab.patch::<Widget>("w", json!({"spec": {"size": 3}})).await;
        assert_eq!(yard.things(), [format!("{name}=3")]);
        let writes = yard.writes();
        assert_eq!(writes, [format!("create {name}"), format!("update {name}")]);
        lab.delete::<Widget>("w").await;
        assert!(yard.things().is_empty());
        assert!(lab.names::<Widget>().await.is_empty(), "the finalizer is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn several_things_of_one_object_and_a_rename() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        lab.patch::<Widget>("w", json!({"spec": {"config": "a,b"}})).await;
        let named = |name| named(&ownership, name);
        assert_eq!(yard.things(), [format!("{}=0", named("a")), format!("{}=0", named("b"))]);
        lab.patch::<Widget>("w", json!({"spec": {"config": "b,c"}})).await;
        assert_eq!(
            yard.things(),
            [format!("{}=0", named("b")), format!("{}=0", named("c"))],
            "{ownership:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rename_while_the_operator_is_down_leaves_nothing_behind() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        running.kill();
        lab.patch::<Widget>("w", json!({"spec": {"config": "new"}})).await;
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        assert_eq!(yard.things(), [format!("{}=0", named(&ownership, "new"))], "{ownership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn at_rest_a_pass_is_one_list_and_a_restart_is_one_list() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    for number in 0..20 {
        lab.widget(&format!("w{number}")).await;
    }
    yard.calls();
    lab.pass(70).await;
    assert_eq!(yard.calls(), ["list"]);
    let version = lab.version::<Widget>("w7").await;
    running.stop.cancel();
    lab.rest().await;
    run(&mut lab, &yard, |outside| outside).await;
    assert_eq!(yard.calls(), ["list"], "what the list shows in sync is not looked at again");
    assert_eq!(lab.version::<Widget>("w7").await, version, "and not written");
}

#[tokio::test(start_paused = true)]
async fn a_wish_that_makes_no_sense_is_terminal_and_its_things_stay() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Prefix("k8s-".into()))).await;
    lab.widget("w").await;
    lab.patch::<Widget>("w", json!({"spec": {"size": -1}})).await;
    lab.pass(600).await;
    assert_eq!(yard.things(), ["k8s-w=0"], "unwanted by nobody's decision, so not swept");
    lab.delete::<Widget>("w").await;
    assert!(yard.things().is_empty(), "the inventory knows it");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_condition_and_is_retried() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    yard.switch(|switches| switches.is_strict = true);
    lab.widget("w").await;
    let refused = ("False".into(), "Refused".into(), "not that size".into());
    assert_eq!(synced(&lab, "w").await, refused);
    lab.pass(5).await;
    assert_eq!(synced(&lab, "w").await, refused, "also while it waits to try again");
    yard.switch(|switches| switches.is_strict = false);
    lab.pass(40).await;
    assert_eq!(yard.things(), ["w=0"]);
    assert_eq!(synced(&lab, "w").await.0, "True");
}
