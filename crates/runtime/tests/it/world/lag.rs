//! Tests an API that shows writes late: a created resource is not created again, and a resource that may exist is not
//! forgotten.

use std::time::Duration;

use super::fake_api::{FakeApi, named, ownerships, run, synced};
use crate::test_cluster::{TestCluster, Widget};

const LAG: Duration = Duration::from_secs(20);

/// An API whose reads lag and that would create duplicates.
fn lagging() -> FakeApi {
    let yard = FakeApi::new();
    yard.switch(|switches| {
        switches.lag = LAG;
        switches.allows_twins = true;
    });
    yard
}

#[tokio::test(start_paused = true)]
async fn what_was_created_is_not_created_again() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, lagging());
        let poll = Duration::from_secs(5);
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone()).poll(poll)).await;
        lab.pass(30).await;
        lab.widget("w").await;
        lab.pass(60).await;
        assert_eq!(yard.writes(), [format!("create {}", named(&ownership, "w"))], "{ownership:?}");
        assert_eq!(synced(&lab, "w").await.0, "True");
    }
}

#[tokio::test(start_paused = true)]
async fn nor_by_the_next_process() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, lagging());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        running.kill();
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.pass(60).await;
        assert_eq!(yard.twins(), [] as [&str; 0], "{ownership:?}");
        assert_eq!(synced(&lab, "w").await.0, "True");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_deleted_before_its_thing_shows_waits_for_it() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, lagging());
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        running.kill();
        lab.delete::<Widget>("w").await;
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        assert_eq!(lab.names::<Widget>().await, ["w"], "the finalizer holds it");
        lab.pass(40).await;
        assert!(yard.things().is_empty(), "{ownership:?}");
        assert!(lab.names::<Widget>().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_that_never_happened_is_made_up_for() {
    for ownership in ownerships() {
        let (mut lab, yard) = (TestCluster::new().await, lagging());
        yard.fate.seal(3, super::fake_api::Moment::Before);
        let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        lab.widget("w").await;
        assert!(yard.fate.has_struck(), "list, get, create");
        running.kill();
        yard.fate.lift();
        run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
        assert!(yard.things().is_empty(), "it may only not show yet");
        lab.pass(40).await;
        assert_eq!(yard.things().len(), 1, "{ownership:?}");
        assert_eq!(yard.twins(), [] as [&str; 0]);
    }
}
