//! The end of a Database: children go with it, data as its policy says.

use homeostat::kube::api::ListParams;
use homeostat::prelude::*;
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

async fn check_gone(lab: &Lab) {
    assert!(lab.api::<Database>().get_opt("orders").await.unwrap().is_none());
    assert!(lab.api::<StatefulSet>().get_opt("orders").await.unwrap().is_none());
    assert!(lab.api::<Secret>().get_opt("orders-credentials").await.unwrap().is_none());
    assert!(lab.api::<Service>().get_opt("orders").await.unwrap().is_none());
    assert!(lab.api::<Pod>().list(&ListParams::default()).await.unwrap().items.is_empty());
}
