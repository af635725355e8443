//! Tests that leaks are found and deleted, which the engine does more carefully than anything else.

use std::time::Duration;

use homeostat::testing::InjectedFault;
use homeostat_core::journal::Entry;
use homeostat_runtime::world::{LeakDeletionLimits, Outside, OutsideRecord, Ownership};
use serde_json::json;

use super::fake_api::{FakeApi, generous, named, ownerships, quick, run, surveys, synced};
use crate::test_cluster::{Running, TestCluster, Widget, WidgetSpec};

/// Deletes a widget without running its cleanup.
async fn vanish(lab: &TestCluster, name: &str) {
    lab.patch::<Widget>(name, json!({"metadata": {"finalizers": null}})).await;
    lab.delete::<Widget>(name).await;
}

fn withheld(running: &Running) -> Option<String> {
    match surveys(running).pop() {
        Some(Entry::Surveyed { withheld, .. }) => withheld,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_missed_while_down_is_found_after_two_looks_and_a_minute() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("stays").await;
        lab.widget("goes").await;
        running.kill();
        vanish(&lab, "goes").await;
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        assert_eq!(yard.things().len(), 2, "one look is not enough");
        let Some(Entry::Surveyed { leaks: 1, .. }) = surveys(&running).pop() else {
            panic!("{:?}", surveys(&running))
        };
        lab.pass(50).await;
        assert_eq!(yard.things().len(), 2, "too young");
        lab.pass(100).await;
        assert_eq!(yard.things(), [format!("{}=0", named(&ownership, "stays"))], "{ownership:?}");
        assert_eq!(lab.names::<Widget>().await, ["stays"]);
        if ownership == Ownership::Records {
            assert_eq!(lab.names::<OutsideRecord>().await.len(), 1, "the record went along");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_answer_of_the_cluster_does_not_delete_the_world() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    for number in 0..10 {
        lab.widget(&format!("w{number}")).await;
    }
    running.kill();
    lab.rest().await;
    // All objects vanish, as after losing etcd: no finalizer was run.
    for number in 0..10 {
        vanish(&lab, &format!("w{number}")).await;
    }
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.pass(3600).await;
    assert_eq!(yard.things().len(), 10);
    assert_eq!(withheld(&running).unwrap(), "10 of 10 seem unwanted, more than a share of 0.2");
}

#[tokio::test(start_paused = true)]
async fn the_share_is_one_of_our_things_and_not_of_those_in_our_way() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    for number in 0..12 {
        yard.put(&format!("theirs{number}"), 5, Some("terraform"));
    }
    let running = run(&mut lab, &yard, |outside| outside).await;
    for number in 0..12 {
        lab.widget(&format!("theirs{number}")).await;
    }
    for number in 0..5 {
        lab.widget(&format!("w{number}")).await;
    }
    running.kill();
    lab.rest().await;
    for number in 0..3 {
        vanish(&lab, &format!("w{number}")).await;
    }
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.pass(3600).await;
    assert_eq!(withheld(&running).unwrap(), "3 of 5 seem unwanted, more than a share of 0.2");
    assert_eq!(yard.things().len(), 17);
}

#[tokio::test(start_paused = true)]
async fn an_empty_or_truncated_list_of_the_outside_deletes_and_makes_nothing() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        for number in 0..5 {
            lab.widget(&format!("w{number}")).await;
        }
        lab.pass(70).await;
        yard.writes();
        for shown in [0, 2] {
            yard.switch(|switches| switches.truncate = Some(shown));
            lab.pass(600).await;
        }
        assert_eq!(yard.writes(), [] as [&str; 0], "{ownership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn deletions_keep_to_the_caps_per_pass_and_per_minute() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let caps = LeakDeletionLimits { per_pass: 2, per_minute: 3, share: 1.0, ..quick() };
    let poll = std::time::Duration::from_secs(20);
    let running = run(&mut lab, &yard, |outside| outside.poll(poll)).await;
    for number in 0..9 {
        lab.widget(&format!("w{number}")).await;
    }
    running.kill();
    lab.rest().await;
    for number in 0..9 {
        vanish(&lab, &format!("w{number}")).await;
    }
    let running = run(&mut lab, &yard, |outside| outside.poll(poll).sweep(caps)).await;
    let mut left = vec![];
    for _ in 0..18 {
        lab.pass(20).await;
        left.push(yard.things().len());
    }
    assert!(left.windows(2).all(|pair| pair[0] - pair[1] <= 2), "{left:?}");
    assert!(left.windows(4).all(|four| four[0] - four[3] <= 3), "{left:?}");
    assert_eq!(left.last(), Some(&0), "and yet all go: {left:?}");
    assert!(surveys(&running).iter().any(|entry| {
        matches!(entry, Entry::Surveyed { withheld: Some(why), .. } if why.contains("9 are due, 2 may go in one pass"))
    }));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_swept_while_the_cache_is_cut_off() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("stays").await;
    lab.widget("goes").await;
    running.kill();
    vanish(&lab, "goes").await;
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.faults.set(|request| {
        let is_watch = request.method() == http::Method::GET && request.uri().path().ends_with("/widgets");
        is_watch.then_some(InjectedFault::Unreachable)
    });
    lab.faults.cut();
    lab.pass(600).await;
    assert_eq!(yard.things().len(), 2);
    assert_eq!(withheld(&running).unwrap(), "the cache is not in step with the server");
    lab.faults.clear();
    lab.pass(600).await;
    assert_eq!(yard.things(), ["stays=0"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_only_the_server_knows_is_respected() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("w").await;
    // From now on the watch is wrong: it stays open but reports nothing, so the cache considers itself current.
    lab.faults.mute();
    let late = lab.widget("late").await;
    let uid = late.metadata.uid.unwrap();
    yard.put("late", 0, Some(&format!("widgets.test.dev/default/late/{uid}")));
    lab.pass(200).await;
    assert_eq!(yard.things(), ["late=0", "w=0"]);
    let Some(Entry::Surveyed { withheld: None, .. }) = surveys(&running).pop() else {
        panic!("{:?}", surveys(&running))
    };
}

#[tokio::test(start_paused = true)]
async fn wishes_that_vanish_from_many_objects_at_once_are_obeyed_slowly() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    run(&mut lab, &yard, |outside| outside.sweep(LeakDeletionLimits { per_minute: 2, ..quick() })).await;
    for number in 0..6 {
        lab.widget(&format!("w{number}")).await;
    }
    for number in 0..6 {
        lab.patch::<Widget>(&format!("w{number}"), json!({"spec": {"config": ""}})).await;
    }
    assert_eq!(yard.things().len(), 4, "two a minute");
    lab.pass(61).await;
    assert_eq!(yard.things().len(), 2);
    lab.pass(61).await;
    assert!(yard.things().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_look_at_the_thing_decides() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.widget("stays").await;
    lab.widget("goes").await;
    lab.pass(1000).await;
    running.kill();
    vanish(&lab, "goes").await;
    // Lists keep showing an old state: one of our resources without its object. Meanwhile it has another owner.
    yard.switch(|switches| switches.list_lag = Duration::from_secs(900));
    yard.alter("goes", |thing| thing.mark = Some("others.dev/a/b/c".into()));
    let running = run(&mut lab, &yard, |outside| outside).await;
    lab.pass(600).await;
    let is_suspected = |entry: &Entry| matches!(entry, Entry::Surveyed { leaks: 1, .. });
    assert!(surveys(&running).iter().any(is_suspected), "{:?}", surveys(&running));
    assert_eq!(yard.things(), ["goes=0", "stays=0"]);
}

#[tokio::test(start_paused = true)]
async fn the_things_of_namespaces_we_do_not_see_are_not_ours_to_judge() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.put("far", 3, Some("widgets.test.dev/elsewhere/far/1"));
    let outside = Outside::new(yard.clone()).limits(generous()).sweep(quick());
    lab.run(|operator| operator.namespace("default").control(outside.control()));
    lab.widget("w").await;
    lab.widget("far").await;
    lab.pass(600).await;
    assert_eq!(yard.things(), ["far=3", "w=0"]);
    assert_eq!(synced(&lab, "far").await.2, "far belongs to test.dev/widgets/elsewhere/far");
    lab.delete::<Widget>("far").await;
    lab.pass(600).await;
    assert_eq!(yard.things(), ["far=3", "w=0"]);
}

#[tokio::test(start_paused = true)]
async fn what_an_object_of_the_same_name_does_not_want_is_a_leak() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        running.kill();
        vanish(&lab, "w").await;
        lab.create(&Widget::new("w", WidgetSpec { size: 0, config: Some("new".into()) })).await;
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        assert_eq!(yard.things().len(), 2);
        lab.pass(200).await;
        assert_eq!(yard.things(), [format!("{}=0", named(&ownership, "new"))], "{ownership:?}");
        if ownership == Ownership::Records {
            assert_eq!(lab.names::<OutsideRecord>().await.len(), 1, "the record went along");
        }
    }
}
