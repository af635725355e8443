//! Tests deliberate damage: a user removes the finalizer, deletes the record, or edits the mark or the inventory. The
//! guide describes what happens (`docs/guide/ownership-and-leaks.md`), and there is no further damage.

use homeostat_runtime::world::{OutsideRecord, Ownership};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::fake_api::{FakeApi, named, ownerships, run, synced};
use crate::test_cluster::{TestCluster, Widget};

#[tokio::test(start_paused = true)]
async fn the_finalizer_is_put_on_again_while_the_object_lives() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    let patched = lab.patch::<Widget>("w", json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(patched.metadata.finalizers, None);
    let widget = lab.api::<Widget>().get("w").await.unwrap();
    assert_eq!(widget.metadata.finalizers.unwrap(), ["widgets.test.dev/widget"]);
    assert_eq!(yard.things(), ["w=0"]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_finalizer_costs_a_sweep_and_nothing_more() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("other").await;
        lab.widget("w").await;
        running.stop.cancel();
        lab.rest().await;
        lab.patch::<Widget>("w", json!({"metadata": {"finalizers": null}})).await;
        lab.delete::<Widget>("w").await;
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.pass(200).await;
        assert_eq!(yard.things().len(), 1, "{ownership:?}: {:?}", yard.things());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_record_unlinks_its_thing_and_an_adoption_links_it_again() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    lab.widget("w").await;
    let records = lab.api::<OutsideRecord>();
    records.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    lab.pass(200).await;
    assert_eq!(yard.things(), ["w=0"], "neither deleted nor made again");
    assert_eq!(synced(&lab, "w").await.1, "Conflict");
    running.kill();
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records).adopt(|_, _| true)).await;
    assert_eq!(synced(&lab, "w").await.0, "True");
    assert_eq!(lab.names::<OutsideRecord>().await.len(), 1);
    lab.delete::<Widget>("w").await;
    assert!(yard.things().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_record_of_a_deleted_object_leaves_the_thing() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    lab.widget("w").await;
    running.kill();
    let records = lab.api::<OutsideRecord>();
    records.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    lab.delete::<Widget>("w").await;
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    lab.pass(600).await;
    assert_eq!(yard.things(), ["w=0"], "whose it is nobody knows any more");
    assert!(lab.names::<Widget>().await.is_empty(), "and the object is not held for it");
}

#[tokio::test(start_paused = true)]
async fn a_removed_mark_is_a_conflict_and_the_thing_is_left_alone() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    yard.alter("w", |thing| {
        thing.mark = None;
        thing.size = 7;
    });
    yard.writes();
    lab.pass(200).await;
    assert_eq!(synced(&lab, "w").await.1, "Conflict");
    assert_eq!(yard.writes(), [] as [&str; 0]);
    lab.delete::<Widget>("w").await;
    assert_eq!(yard.things(), ["w=7"]);
    assert!(lab.names::<Widget>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mark_edited_to_another_manager_is_theirs() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    yard.alter("w", |thing| thing.mark = Some("others.dev/a/b/c".into()));
    yard.writes();
    lab.pass(200).await;
    assert_eq!(synced(&lab, "w").await.2, "w belongs to others.dev/a/b/c");
    assert_eq!(yard.writes(), [] as [&str; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_mark_edited_to_an_object_that_never_was_is_put_right() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    let mark = yard.thing("w").mark;
    yard.alter("w", |thing| thing.mark = Some("widgets.test.dev/default/never/1".into()));
    lab.pass(70).await;
    assert_eq!(yard.thing("w").mark, mark);
}

#[tokio::test(start_paused = true)]
async fn an_inventory_that_is_gone_or_garbage_is_not_needed() {
    for (value, ownership) in [
        (json!(null), Ownership::Tags),
        (json!("{garbage"), Ownership::Tags),
        (json!(null), Ownership::Prefix("k8s-".into())),
    ] {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        running.kill();
        let patch = json!({"metadata": {"annotations": {"widgets.test.dev/widget": value}}});
        lab.patch::<Widget>("w", patch).await;
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.pass(70).await;
        assert_eq!(yard.twins(), [] as [&str; 0]);
        assert_eq!(yard.things().len(), 1);
        lab.delete::<Widget>("w").await;
        assert!(yard.things().is_empty(), "{ownership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thing_that_loses_its_prefix_is_nobodys_and_one_that_gains_it_is_ours() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Prefix("k8s-".into()))).await;
    lab.widget("w").await;
    yard.take("k8s-w");
    yard.put("renamed", 0, None);
    yard.put("k8s-stranger", 4, None);
    lab.pass(70).await;
    assert_eq!(yard.things(), ["k8s-stranger=4", "k8s-w=0", "renamed=0"]);
    lab.pass(300).await;
    assert_eq!(yard.things(), ["k8s-w=0", "renamed=0"], "ours by its name, and unwanted");
}

#[tokio::test(start_paused = true)]
async fn a_record_set_back_to_intended_is_ours_only_if_the_thing_is_what_we_intended() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    lab.widget("same").await;
    lab.widget("other").await;
    running.kill();
    for record in lab.names::<OutsideRecord>().await {
        lab.patch::<OutsideRecord>(&record, json!({"spec": {"made": false}})).await;
    }
    yard.alter("other", |thing| thing.size = 9);
    yard.writes();
    run(&mut lab, &yard, |outside| outside.ownership(Ownership::Records)).await;
    assert_eq!(synced(&lab, "same").await.0, "True");
    assert_eq!(synced(&lab, "other").await.1, "Conflict");
    assert_eq!(yard.writes(), [] as [&str; 0]);
}

/// Sets the time of the intent for `w`'s resource, in the annotation or the record, to the far future.
async fn set_ahead(lab: &TestCluster, ownership: &Ownership, name: &str) {
    if *ownership == Ownership::Records {
        for record in lab.names::<OutsideRecord>().await {
            let patch = json!({"spec": {"intendedAt": "2099-01-01T00:00:00Z"}});
            lab.patch::<OutsideRecord>(&record, patch).await;
        }
        return;
    }
    let intents = json!({name: "2099-01-01T00:00:00Z"}).to_string();
    let patch = json!({"metadata": {"annotations": {"widgets.test.dev/widget": intents}}});
    lab.patch::<Widget>("w", patch).await;
}

#[tokio::test(start_paused = true)]
async fn an_intent_of_a_time_to_come_is_waited_for_no_longer_than_any_other() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        running.kill();
        let name = named(&ownership, "w");
        set_ahead(&lab, &ownership, &name).await;
        yard.take(&name);
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        assert!(yard.things().is_empty(), "it may only not show yet");
        lab.pass(40).await;
        assert_eq!(yard.things().len(), 1, "{ownership:?}");
        running.kill();
        set_ahead(&lab, &ownership, &name).await;
        yard.take(&name);
        lab.delete::<Widget>("w").await;
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.pass(40).await;
        assert!(lab.names::<Widget>().await.is_empty(), "{ownership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thing_that_only_its_mark_remembers_is_removed() {
    for ownership in [Ownership::Tags, Ownership::Prefix("k8s-".into())] {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        running.kill();
        let patch = json!({
            "metadata": {"annotations": {"widgets.test.dev/widget": null}},
            "spec": {"config": "new"},
        });
        lab.patch::<Widget>("w", patch).await;
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.pass(200).await;
        assert_eq!(yard.things(), [format!("{}=0", named(&ownership, "new"))], "{ownership:?}");
    }
}
