//! What can go wrong: said in the status, retried or not by its class.

use std::time::Duration;

use homeostat_example_database::Database;
use serde_json::json;

use crate::lab::{Lab, container};

#[tokio::test(start_paused = true)]
async fn without_postgres_it_says_what_to_install() {
    let lab = Lab::start().await;
    lab.create("orders", json!({})).await;
    let prepare = container("prepare", false, &json!({"terminated": {"exitCode": 127}}));
    lab.mark("orders-0", json!({"phase": "Pending", "initContainerStatuses": [prepare]})).await;
    let (reason, message) = lab.condition("orders", "Ready").await;
    assert_eq!(reason, "PostgresNotInstalled");
    assert!(message.contains("apt-get install postgresql"), "{message}");
    lab.mark("orders-0", json!({"initContainerStatuses": null})).await;
    lab.serve("orders-0").await;
    assert!(lab.status("orders").await.ready, "it is found once it is there");
}

#[tokio::test(start_paused = true)]
async fn permanent_only_an_edit_helps() {
    let lab = Lab::start().await;
    lab.create("orders", json!({"parameters": {"data_directory": "/etc"}})).await;
    assert_eq!(lab.reason("orders").await, "BadParameter");
    assert_eq!(lab.condition("orders", "Reconciled").await.0, "TerminalError");
    assert!(lab.pod_names().await.is_empty());
    lab.edit::<Database>("orders", json!({"spec": {"parameters": {"data_directory": null}}})).await;
    assert_eq!(lab.pod_names().await, ["orders-0"]);
    assert_eq!(lab.condition("orders", "Reconciled").await.0, "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn transient_time_may_help() {
    let lab = Lab::start().await;
    lab.create("first", json!({"port": 6001, "deletionPolicy": "Retain"})).await;
    lab.create("second", json!({"port": 6001})).await;
    let (reason, message) = lab.condition("second", "Ready").await;
    assert_eq!(reason, "PortTaken");
    assert!(message.contains("the Database first"), "{message}");
    assert_eq!(lab.pod_names().await, ["first-0"]);
    lab.delete::<Database>("first").await;
    lab.pass(Duration::from_secs(10)).await;
    assert_eq!(lab.pod_names().await, ["second-0"]);
    assert_eq!(lab.reason("second").await, "Starting");
}
