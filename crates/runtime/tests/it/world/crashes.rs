//! Kills the process between any two calls, external or to the cluster, before and after each took effect. The next
//! process finds whatever exists: nothing is created twice, nothing is forgotten.

use std::time::Duration;

use homeostat_runtime::world::{OutsideRecord, Ownership};
use serde_json::{Value, json};

use super::fake_api::{FakeApi, Moment, named, ownerships, run, synced};
use crate::test_cluster::{TestCluster, Widget};

/// The actions of users on the widget, in order.
enum Deed {
    Create,
    Patch(Value),
    Delete,
}

async fn act(lab: &TestCluster, deed: &Deed) {
    match deed {
        Deed::Create => drop(lab.widget("w").await),
        Deed::Patch(patch) => drop(lab.patch::<Widget>("w", patch.clone()).await),
        Deed::Delete => lab.delete::<Widget>("w").await,
    }
}

/// A sequence of actions, and its circumstances.
struct Story<'a> {
    ownership: Ownership,
    deeds: &'a [Deed],
    /// How late the API shows writes.
    lag: Duration,
}

/// Performs the users' actions, kills the operator at the given step, and starts it again. Returns whether there was
/// such a step.
async fn survive(story: &Story<'_>, step: usize, moment: Moment) -> Option<(TestCluster, FakeApi)> {
    let Story { ownership, deeds, lag } = story;
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    yard.switch(|switches| {
        switches.allows_twins = true;
        switches.lag = *lag;
    });
    yard.fate.seal(step, moment);
    yard.fate.govern(&lab);
    let running = run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
    for deed in *deeds {
        act(&lab, deed).await;
        if yard.fate.has_struck() {
            running.kill();
        }
    }
    let has_struck = yard.fate.has_struck();
    running.kill();
    lab.faults.clear();
    yard.fate.lift();
    run(&mut lab, &yard, |outside| outside.ownership(ownership.clone())).await;
    lab.pass(120).await;
    assert_eq!(yard.twins(), [] as [&str; 0], "{ownership:?}, {moment:?} step {step}");
    has_struck.then_some((lab, yard))
}

/// Kills at every step until there are no more; returns their number.
async fn at_every_step<F>(deeds: &[Deed], lag: Duration, check: F) -> usize
where
    F: AsyncFn(&TestCluster, &FakeApi, &Ownership, String),
{
    let mut steps = 0;
    for ownership in ownerships() {
        let story = Story { ownership, deeds, lag };
        let ownership = &story.ownership;
        for moment in [Moment::Before, Moment::After] {
            for step in 1.. {
                let Some((lab, yard)) = survive(&story, step, moment).await else { break };
                check(&lab, &yard, ownership, format!("{ownership:?}, {moment:?} step {step}")).await;
                steps += 1;
            }
        }
    }
    steps
}

#[tokio::test(start_paused = true)]
async fn create_and_change() {
    let deeds = [Deed::Create, Deed::Patch(json!({"spec": {"size": 3}}))];
    let steps = at_every_step(&deeds, Duration::ZERO, async |lab, yard, ownership, at| {
        assert_eq!(yard.things(), [format!("{}=3", named(ownership, "w"))], "{at}");
        assert_eq!(synced(lab, "w").await.0, "True", "{at}");
    })
    .await;
    assert!(steps >= 50, "{steps} crash points");
}

#[tokio::test(start_paused = true)]
async fn create_and_rename() {
    let deeds = [Deed::Create, Deed::Patch(json!({"spec": {"config": "new"}}))];
    at_every_step(&deeds, Duration::ZERO, async |_, yard, ownership, at| {
        assert_eq!(yard.things(), [format!("{}=0", named(ownership, "new"))], "{at}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn create_and_delete() {
    let deeds = [Deed::Create, Deed::Delete];
    at_every_step(&deeds, Duration::ZERO, async |lab, yard, ownership, at| {
        assert!(yard.things().is_empty(), "{at}: {:?}", yard.things());
        assert!(lab.names::<Widget>().await.is_empty(), "{at}");
        if *ownership == Ownership::Records {
            assert!(lab.names::<OutsideRecord>().await.is_empty(), "{at}");
        }
    })
    .await;
}

/// Less than the lag that the engine is configured to expect.
const LAG: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn create_and_change_with_reads_that_lag() {
    let deeds = [Deed::Create, Deed::Patch(json!({"spec": {"size": 3}}))];
    at_every_step(&deeds, LAG, async |lab, yard, ownership, at| {
        assert_eq!(yard.things(), [format!("{}=3", named(ownership, "w"))], "{at}");
        assert_eq!(synced(lab, "w").await.0, "True", "{at}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn create_and_delete_with_reads_that_lag() {
    let deeds = [Deed::Create, Deed::Delete];
    at_every_step(&deeds, LAG, async |lab, yard, _, at| {
        assert!(yard.things().is_empty(), "{at}: {:?}", yard.things());
        assert!(lab.names::<Widget>().await.is_empty(), "{at}");
    })
    .await;
}
