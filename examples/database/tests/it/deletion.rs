//! The end of a Database: children go with it, data as its policy says.

use std::time::Duration;

use homeostat::k8s_openapi::api::core::v1::Namespace;
use homeostat::kube::Api;
use homeostat::kube::api::{DeleteParams, ListParams, PostParams};
use homeostat::prelude::{Pod, ResourceExt as _, Secret, Service, StatefulSet};
use homeostat_example_database::Database;
use serde_json::json;

use crate::lab::Lab;

#[tokio::test(start_paused = true)]
async fn data_is_erased_after_postgres_has_ended() {
    let lab = Lab::start().await;
    lab.create("orders", json!({})).await;
    lab.delete::<Database>("orders").await;
    assert_eq!(lab.pod_names().await, ["orders-erase"]);
    let eraser = lab.api::<Pod>().get("orders-erase").await.unwrap().spec.unwrap().containers.remove(0);
    assert_eq!(eraser.env.unwrap()[0].value.as_deref(), Some("/data/default/orders"));
    lab.mark("orders-erase", json!({"phase": "Succeeded"})).await;
    check_gone(&lab).await;
}

#[tokio::test(start_paused = true)]
async fn data_that_is_retained_needs_no_finalizer() {
    let lab = Lab::start().await;
    lab.create("orders", json!({"deletionPolicy": "Retain"})).await;
    assert_eq!(lab.api::<Database>().get("orders").await.unwrap().metadata.finalizers, None);
    lab.delete::<Database>("orders").await;
    check_gone(&lab).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_can_be_deleted_and_the_data_goes_all_the_same() {
    let lab = Lab::start().await;
    let namespaces: Api<Namespace> = Api::all(lab.client.clone());
    let shop: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    let databases: Api<Database> = Api::namespaced(lab.client.clone(), "shop");
    let database: Database = serde_json::from_value(json!({
        "apiVersion": "database.example.com/v1", "kind": "Database", "metadata": {"name": "orders"}, "spec": {},
    }))
    .unwrap();
    let uid = databases.create(&PostParams::default(), &database).await.unwrap().uid().unwrap();
    lab.settle().await;
    namespaces.delete("shop", &DeleteParams::default()).await.unwrap();
    lab.pass(Duration::from_secs(60)).await;
    let eraser = format!("erase-{uid}");
    assert_eq!(lab.pod_names().await, [&*eraser], "made where something can be made");
    let container = lab.api::<Pod>().get(&eraser).await.unwrap().spec.unwrap().containers.remove(0);
    assert_eq!(container.env.unwrap()[0].value.as_deref(), Some("/data/shop/orders"));
    lab.mark(&eraser, json!({"phase": "Succeeded"})).await;
    lab.pass(Duration::from_secs(60)).await;
    assert!(lab.pod_names().await.is_empty());
    assert!(namespaces.get_opt("shop").await.unwrap().is_none());
}

async fn check_gone(lab: &Lab) {
    assert!(lab.api::<Database>().get_opt("orders").await.unwrap().is_none());
    assert!(lab.api::<StatefulSet>().get_opt("orders").await.unwrap().is_none());
    assert!(lab.api::<Secret>().get_opt("orders-credentials").await.unwrap().is_none());
    assert!(lab.api::<Service>().get_opt("orders").await.unwrap().is_none());
    assert!(lab.api::<Pod>().list(&ListParams::default()).await.unwrap().items.is_empty());
}
