//! The deletion of a Database: children are deleted with it, and data according to its policy.

use std::time::Duration;

use homeostat::k8s_openapi::api::core::v1::Namespace;
use homeostat::prelude::{Pod, ResourceExt as _, Secret, Service, StatefulSet};
use homeostat_example_database::Database;
use serde_json::json;

use crate::test_cluster::TestCluster;

#[tokio::test(start_paused = true)]
async fn data_is_erased_after_postgres_has_ended() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({})).await;
    lab.remove::<Database>("orders").await;
    assert_eq!(lab.names::<Pod>().await, ["orders-erase"]);
    let eraser = lab.get::<Pod>("orders-erase").await.spec.unwrap().containers.remove(0);
    assert_eq!(eraser.env.unwrap()[0].value.as_deref(), Some("/data/default/orders"));
    lab.mark("orders-erase", json!({"phase": "Succeeded"})).await;
    check_gone(&lab).await;
}

#[tokio::test(start_paused = true)]
async fn data_that_is_retained_needs_no_finalizer() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({"deletionPolicy": "Retain"})).await;
    assert_eq!(lab.get::<Database>("orders").await.metadata.finalizers, None);
    lab.remove::<Database>("orders").await;
    check_gone(&lab).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_can_be_deleted_and_the_data_goes_all_the_same() {
    let lab = TestCluster::start().await;
    lab.create_json::<Namespace>(json!({"metadata": {"name": "shop"}})).await;
    let database = json!({"metadata": {"name": "orders", "namespace": "shop"}, "spec": {}});
    let uid = lab.create_json::<Database>(database).await.uid().unwrap();
    lab.settle().await;
    lab.delete::<Namespace>("shop").await;
    lab.pass(Duration::from_secs(60)).await;
    let eraser = format!("erase-{uid}");
    assert_eq!(lab.names::<Pod>().await, [&*eraser], "made where something can be made");
    let container = lab.get::<Pod>(&eraser).await.spec.unwrap().containers.remove(0);
    assert_eq!(container.env.unwrap()[0].value.as_deref(), Some("/data/shop/orders"));
    lab.mark(&eraser, json!({"phase": "Succeeded"})).await;
    lab.pass(Duration::from_secs(60)).await;
    assert!(lab.names::<Pod>().await.is_empty());
    assert!(lab.get_opt::<Namespace>("shop").await.is_none());
}

async fn check_gone(lab: &TestCluster) {
    assert!(lab.get_opt::<Database>("orders").await.is_none());
    assert!(lab.get_opt::<StatefulSet>("orders").await.is_none());
    assert!(lab.get_opt::<Secret>("orders-credentials").await.is_none());
    assert!(lab.get_opt::<Service>("orders").await.is_none());
    assert!(lab.list::<Pod>().await.is_empty());
}
