//! Problems: reported in the status, and retried or not according to their class.

use std::time::Duration;

use homeostat::kube::api::{Patch, PatchParams};
use homeostat::prelude::Pod;
use homeostat_example_database::Database;
use serde_json::json;

use crate::test_cluster::{TestCluster, container};

#[tokio::test(start_paused = true)]
async fn without_postgres_it_says_what_to_install() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({})).await;
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
    let lab = TestCluster::start().await;
    lab.make("orders", json!({"parameters": {"data_directory": "/etc"}})).await;
    assert_eq!(lab.reason("orders").await, "BadParameter");
    assert_eq!(lab.condition("orders", "Reconciled").await.0, "TerminalError");
    assert!(lab.names::<Pod>().await.is_empty());
    lab.edit::<Database>("orders", json!({"spec": {"parameters": {"data_directory": null}}})).await;
    assert_eq!(lab.names::<Pod>().await, ["orders-0"]);
    assert_eq!(lab.condition("orders", "Reconciled").await.0, "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_were_given_the_same_port_the_older_has_it() {
    let lab = TestCluster::start().await;
    lab.make("zoo", json!({"port": 6001})).await;
    lab.make("ant", json!({"port": 6002})).await;
    assert_eq!(lab.names::<Pod>().await, ["ant-0", "zoo-0"]);
    lab.edit::<Database>("ant", json!({"spec": {"port": 6001}})).await;
    // As if both had been reconciled before either saw the other's status.
    let status = Patch::Merge(json!({"status": {"port": 6001}}));
    lab.api::<Database>().patch_status("ant", &PatchParams::default(), &status).await.unwrap();
    lab.pass(Duration::from_secs(15)).await;
    assert_eq!((&*lab.reason("ant").await, lab.status("ant").await.port), ("PortTaken", None));
    lab.pass(Duration::from_secs(60)).await;
    lab.serve("zoo-0").await;
    assert_eq!((&*lab.reason("zoo").await, lab.status("zoo").await.port), ("Ready", Some(6001)));
    assert_eq!(lab.names::<Pod>().await, ["zoo-0"]);
}

#[tokio::test(start_paused = true)]
async fn capitals_do_not_hide_a_parameter_of_ours() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({"port": 6001, "parameters": {"Port": "6002"}})).await;
    assert_eq!(lab.reason("orders").await, "BadParameter");
    assert!(lab.names::<Pod>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_name_the_children_cannot_have_is_refused_and_can_be_deleted() {
    let lab = TestCluster::start().await;
    let long = "a".repeat(64);
    for name in ["1st", "a.b", &long] {
        lab.make(name, json!({})).await;
        assert_eq!(lab.reason(name).await, "BadName", "{name}");
        lab.remove::<Database>(name).await;
        assert!(lab.get_opt::<Database>(name).await.is_none(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_that_another_program_has_is_said_and_given_up_unless_asked_for() {
    let lab = TestCluster::start().await;
    lab.make("asked", json!({"port": 6001})).await;
    lab.make("chosen", json!({})).await;
    let port = lab.status("chosen").await.port.unwrap();
    for name in ["asked", "chosen"] {
        let taken = container("postgres", false, &json!({"terminated": {"exitCode": 98}}));
        let status = json!({"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [taken]});
        lab.mark(&format!("{name}-0"), status).await;
    }
    let (reason, message) = lab.condition("asked", "Ready").await;
    assert_eq!((&*reason, lab.status("asked").await.port), ("PortTaken", Some(6001)));
    assert!(message.contains("another program on the Pod's machine uses port 6001"), "{message}");
    let chosen = lab.status("chosen").await.port.unwrap();
    assert_ne!(chosen, port);
    assert!(lab.arguments("chosen").await.contains(&format!("port={chosen}")));
    assert_eq!(lab.reason("chosen").await, "Starting", "a Pod with another port took its place");
}

#[test]
fn the_script_sees_who_listens_on_the_port() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/true", folder.path().join("postgres")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scripts/serve.sh");
    let check = |address: &str, is_held: bool, expected: i32| {
        let held = std::net::TcpListener::bind(format!("{address}:0")).unwrap();
        let port = held.local_addr().unwrap().port().to_string();
        let held = is_held.then_some(held);
        let environment =
            [("PATH", &*path), ("DATA", "/nowhere"), ("POD_IP", "127.0.0.1"), ("PORT", &port), ("as", "")];
        let ended =
            std::process::Command::new("sh").args(["-eu", script]).envs(environment).status().unwrap();
        assert_eq!(ended.code(), Some(expected), "{address}, held: {is_held}");
        drop(held);
    };
    check("127.0.0.1", false, 0);
    check("127.0.0.1", true, 98);
    check("0.0.0.0", true, 98);
    check("127.0.0.2", true, 0);
}

#[tokio::test(start_paused = true)]
async fn transient_time_may_help() {
    let lab = TestCluster::start().await;
    lab.make("first", json!({"port": 6001, "deletionPolicy": "Retain"})).await;
    lab.make("second", json!({"port": 6001})).await;
    let (reason, message) = lab.condition("second", "Ready").await;
    assert_eq!(reason, "PortTaken");
    assert!(message.contains("the Database first"), "{message}");
    assert_eq!(lab.names::<Pod>().await, ["first-0"]);
    lab.remove::<Database>("first").await;
    lab.pass(Duration::from_secs(10)).await;
    assert_eq!(lab.names::<Pod>().await, ["second-0"]);
    assert_eq!(lab.reason("second").await, "Starting");
}

/// The data is created with them.
#[tokio::test(start_paused = true)]
async fn database_and_role_stay_what_they_are() {
    let lab = TestCluster::start().await;
    lab.make("orders", json!({"username": "shop"})).await;
    let databases = lab.api::<Database>();
    let edit = |spec: serde_json::Value| {
        let (databases, patch) = (databases.clone(), Patch::Merge(json!({"spec": spec})));
        async move { databases.patch("orders", &PatchParams::default(), &patch).await }
    };
    for spec in [json!({"username": "other"}), json!({"databaseName": "other"})] {
        let error = edit(spec).await.unwrap_err().to_string();
        assert!(error.contains("cannot be changed: the data was created with it"), "{error}");
    }
    edit(json!({"username": "shop", "maxConnections": 7})).await.unwrap();
}
