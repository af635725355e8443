//! Tests that a replica that no longer holds the lease makes no external calls, not even a write that was already
//! decided and is waiting for its turn.

use homeostat_core::journal::Entry;
use homeostat_runtime::world::{Limits, Outside};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

use super::fake_api::{FakeApi, generous, quick};
use crate::test_cluster::{Running, TestCluster, Widget, entries};

/// Runs a leader on the API.
async fn lead(lab: &mut TestCluster, yard: &FakeApi, limits: Limits) -> Running {
    let outside = Outside::new(yard.clone()).limits(limits).sweep(quick());
    let running = lab.run(|operator| operator.leader_election().control(outside.control()));
    lab.pass(20).await;
    running
}

async fn usurp(lab: &TestCluster) {
    let spec = json!({"holderIdentity": "usurper", "leaseDurationSeconds": 3600});
    lab.patch::<Lease>("widgets.test.dev", json!({"spec": spec})).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_its_turn_is_not_sent_after_the_lease_is_lost() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    lab.widget("w").await;
    let limits = Limits { per_second: 0.01, burst: 2, ..generous() };
    let running = lead(&mut lab, &yard, limits).await;
    assert_eq!(yard.calls(), ["list", "get w"], "and the create waits for the rate");
    usurp(&lab).await;
    lab.pass(200).await;
    assert_eq!(yard.calls(), [] as [&str; 0]);
    let ends = entries(&running, "w", |entry| match entry {
        Entry::Cancelled { .. } => Some(()),
        Entry::Settled { .. } | Entry::Failed { .. } => panic!("it came to an end"),
        _ => None,
    });
    assert_eq!(ends.len(), 1, "the run that waited was cut off");
}

#[tokio::test(start_paused = true)]
async fn a_deposed_leader_lists_repairs_and_sweeps_no_more() {
    let (mut lab, yard) = (TestCluster::new().await, FakeApi::new());
    lead(&mut lab, &yard, generous()).await;
    lab.widget("w").await;
    lab.widget("goes").await;
    assert_eq!(yard.things().len(), 2);
    usurp(&lab).await;
    lab.pass(20).await;
    yard.calls();
    yard.alter("w", |thing| thing.size = 9);
    lab.patch::<Widget>("goes", json!({"metadata": {"finalizers": null}})).await;
    lab.delete::<Widget>("goes").await;
    lab.pass(600).await;
    assert_eq!(yard.calls(), [] as [&str; 0]);
}
