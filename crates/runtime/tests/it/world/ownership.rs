//! Tests ownership: exclusive and shared use, adoption by rule, conflicts with other owners.

use homeostat_core::journal::Entry;
use homeostat_runtime::world::{ApiSharing, Drift, LeakDeletionLimits, Mark, Ownership};
use serde_json::json;

use super::fake_api::{FakeApi, named, ownerships, quick, run, surveys, synced};
use crate::test_cluster::{Running, TestCluster, Widget};

const OTHER: &str = "others.dev/default/x/1";

#[tokio::test(start_paused = true)]
async fn shared_use_leaves_others_things_alone() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        yard.put("bar", 5, None);
        yard.put("theirs", 6, Some(OTHER));
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        lab.pass(1200).await;
        lab.delete::<Widget>("w").await;
        lab.pass(1200).await;
        assert_eq!(yard.things(), ["bar=5", "theirs=6"], "{ownership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn exclusive_use_cleans_up_what_is_not_wanted_but_not_what_another_manager_marked() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        yard.put("bar", 5, None);
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone()).used(ApiSharing::Exclusive))
            .await;
        lab.widget("w").await;
        lab.pass(30).await;
        assert_eq!(yard.things().len(), 2, "not on the first look");
        lab.pass(200).await;
        assert_eq!(yard.things(), [format!("{}=0", named(&ownership, "w"))], "{ownership:?}");
    }
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.put("theirs", 6, Some(OTHER));
    run(&mut lab, &yard, |outside| outside.used(ApiSharing::Exclusive)).await;
    lab.pass(1200).await;
    assert_eq!(yard.things(), ["theirs=6"]);
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_nobody_can_read_is_somebodys() {
    for r#use in [ApiSharing::Shared, ApiSharing::Exclusive] {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        for (name, mark) in
            [("a", "terraform"), ("b", "widgets.test.dev"), ("c", "widgets.test.dev/default/c/cut/off")]
        {
            yard.put(name, 5, Some(mark));
        }
        run(&mut lab, &yard, |outside| outside.used(r#use).adopt(|_, _| true)).await;
        lab.widget("a").await;
        assert_eq!(synced(&lab, "a").await.2, "a belongs to terraform", "not even by a rule");
        lab.pass(1200).await;
        lab.delete::<Widget>("a").await;
        lab.pass(1200).await;
        assert_eq!(yard.things(), ["a=5", "b=5", "c=5"], "{use:?}");
        assert_eq!(yard.writes(), [] as [&str; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn exclusive_use_adopts_what_nobody_marked_without_a_rule() {
    for ownership in [Ownership::Tags, Ownership::Records] {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        yard.put("w", 5, Some(""));
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone()).used(ApiSharing::Exclusive))
            .await;
        lab.widget("w").await;
        assert_eq!(yard.things(), ["w=0"], "{ownership:?}");
        assert_eq!(synced(&lab, "w").await.0, "True");
        lab.delete::<Widget>("w").await;
        assert!(yard.things().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_taken_by_nobodys_thing_is_a_conflict_until_a_rule_adopts_it() {
    for ownership in [Ownership::Tags, Ownership::Records] {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        yard.put("w", 5, None);
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        let (status, reason, message) = synced(&lab, "w").await;
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Conflict"), "{ownership:?}");
        assert_eq!(message, "w belongs to nobody known; no rule lets us adopt it");
        lab.pass(600).await;
        assert_eq!(yard.writes(), [] as [&str; 0]);
        running.kill();
        run(&mut lab, &yard, |outside| {
            outside.ownership(ownership.clone()).adopt(|_, thing| thing.size == 5)
        })
        .await;
        assert_eq!(yard.writes(), ["update w"]);
        assert_eq!(yard.things(), ["w=0"]);
        assert_eq!(synced(&lab, "w").await.0, "True");
        lab.delete::<Widget>("w").await;
        assert!(yard.things().is_empty(), "it was ours in the end");
    }
}

#[tokio::test(start_paused = true)]
async fn another_managers_thing_is_a_conflict_that_heals_when_it_goes() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::telling());
    yard.put("w", 5, Some(OTHER));
    run(&mut lab, &yard, |outside| outside.adopt(|_, _| true)).await;
    lab.widget("w").await;
    assert_eq!(synced(&lab, "w").await.2, format!("w belongs to {OTHER}"));
    assert_eq!(yard.things(), ["w=5"]);
    yard.take("w");
    lab.rest().await;
    assert_eq!(yard.things(), ["w=0"]);
}

#[tokio::test(start_paused = true)]
async fn a_conflicted_object_can_go_and_takes_nothing_along() {
    for ownership in [Ownership::Tags, Ownership::Records] {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        yard.put("w", 5, None);
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        lab.delete::<Widget>("w").await;
        assert!(lab.names::<Widget>().await.is_empty());
        assert_eq!(yard.things(), ["w=5"], "{ownership:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_objects_that_want_a_name_the_first_has_it_and_the_second_inherits() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("z").await;
        lab.pass(2).await;
        lab.widget("a").await;
        lab.patch::<Widget>("a", json!({"spec": {"config": "z", "size": 4}})).await;
        let name = named(&ownership, "z");
        lab.pass(200).await;
        assert_eq!(yard.things(), [format!("{}=0", named(&ownership, "z"))], "{ownership:?}");
        assert_eq!(synced(&lab, "a").await.1, "Conflict", "{ownership:?}");
        assert_eq!(synced(&lab, "z").await.0, "True");
        lab.delete::<Widget>("z").await;
        lab.pass(200).await;
        assert_eq!(yard.things(), [format!("{name}=4")], "{ownership:?}");
        assert_eq!(synced(&lab, "a").await.0, "True");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_made_anew_under_its_name_takes_its_former_selfs_thing_over() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    let first = lab.widget("w").await;
    running.kill();
    lab.patch::<Widget>("w", json!({"metadata": {"finalizers": null}})).await;
    lab.delete::<Widget>("w").await;
    let second = lab.widget("w").await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    yard.writes();
    run(&mut lab, &yard, |outside| outside).await;
    assert_eq!(yard.writes(), ["update w"]);
    let mark: Mark = yard.thing("w").mark.unwrap().parse().unwrap();
    assert_eq!(Some(mark.uid), second.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn operators_of_two_clusters_share_an_api_by_their_identities() {
    let (mut here, mut there, yard) = (TestCluster::new().await, TestCluster::second().await, FakeApi::new());
    run(&mut here, &yard, |outside| outside.identity("here")).await;
    run(&mut there, &yard, |outside| outside.identity("there")).await;
    here.widget("a").await;
    there.widget("b").await;
    there.widget("a").await;
    here.pass(1200).await;
    assert_eq!(yard.things(), ["a=0", "b=0"]);
    assert_eq!(synced(&there, "a").await.1, "Conflict");
}

#[tokio::test(start_paused = true)]
async fn what_is_seen_is_counted() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.put("bar", 5, None);
    let running =
        run(&mut lab, &yard, |outside| outside.sweep(LeakDeletionLimits { per_pass: 0, ..quick() })).await;
    lab.widget("w").await;
    lab.pass(70).await;
    let last = surveys(&running).pop().unwrap();
    let Entry::Surveyed { things, owned, suspects, leaks, .. } = last else { panic!("{last:?}") };
    assert_eq!((things, owned, suspects, leaks), (2, 1, 0, 0));
}

/// Returns the result of the last pass: the number of resources, and how many of them are ours.
fn counted(running: &Running) -> (u64, u64) {
    match surveys(running).pop() {
        Some(Entry::Surveyed { things, owned, .. }) => (things, owned),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_in_the_way_of_an_object_does_not_count_as_ours() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    let running = run(&mut lab, &yard, |outside| outside).await;
    for name in ["ours", "unmarked", "seized"] {
        lab.widget(name).await;
    }
    lab.pass(70).await;
    assert_eq!(counted(&running), (3, 3));
    yard.alter("unmarked", |thing| thing.mark = None);
    yard.alter("seized", |thing| thing.mark = Some("terraform".to_owned()));
    lab.pass(140).await;
    for name in ["unmarked", "seized"] {
        assert_eq!(synced(&lab, name).await.1, "Conflict", "{name}");
    }
    assert_eq!(counted(&running), (3, 1));
    for (owner, count) in [("us", 1), ("others", 2)] {
        let metric = format!("homeostat_world_things{{world=\"yard\",owner=\"{owner}\"}}");
        assert_eq!(running.metric(&metric).await, count, "{owner}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thing_of_our_own_that_two_objects_want_or_that_drifted_counts_as_ours() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
        let running =
            run(&mut lab, &yard, |outside| outside.ownership(ownership.clone()).drift(Drift::Report)).await;
        lab.widget("z").await;
        lab.widget("a").await;
        lab.patch::<Widget>("a", json!({"spec": {"config": "z", "size": 4}})).await;
        lab.pass(200).await;
        yard.alter(&named(&ownership, "z"), |thing| thing.size = 9);
        lab.pass(200).await;
        assert_eq!(counted(&running), (1, 1), "{ownership:?}");
    }
}
