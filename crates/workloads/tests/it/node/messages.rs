//! Tests termination messages: the message that a container writes before it exits is in its status, and never in the
//! machine's own `/dev`.

use homeostat_workloads::node::NodeOptions;
use k8s_openapi::api::core::v1::ContainerStateTerminated;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, main_status};

/// Runs a shell in a container with these fields until it exits.
async fn ended(lab: &TestCluster, name: &str, script: &str, more: Value) -> ContainerStateTerminated {
    let mut container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script]});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    lab.pod(name, json!({"restartPolicy": "Never", "containers": [container]})).await;
    let pod = lab.until(name, "ended", |pod| {
        main_status(pod).is_some_and(|status| status.state.as_ref().unwrap().terminated.is_some())
    });
    main_status(&pod.await).unwrap().state.clone().unwrap().terminated.unwrap()
}

#[tokio::test]
async fn what_a_container_writes_is_its_message() {
    let lab = TestCluster::new().await;
    let to = |path: &str| json!({"terminationMessagePath": path});
    let or_log = json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    for (name, script, more, expected) in [
        ("default", "echo full > /dev/termination-log; exit 3", json!({}), Some("full\n")),
        ("own-path", "echo mine > /homeostat-test/last; exit 3", to("/homeostat-test/last"), Some("mine\n")),
        ("below-home", "echo home > last", to("last"), Some("home\n")),
        ("log", "echo one; echo two; exit 3", or_log.clone(), Some("one\ntwo\n")),
        ("not-the-log", "echo one; echo kept > /dev/termination-log; exit 3", or_log.clone(), Some("kept\n")),
        ("well", "echo one", or_log, None),
        ("silent", "echo one; exit 3", json!({}), None),
        (
            "other",
            "echo out > /dev/termination-log",
            json!({"securityContext": {"runAsUser": 65534}}),
            Some("out\n"),
        ),
    ] {
        if name == "other" && !rustix::process::getuid().is_root() {
            continue;
        }
        let is_there = std::path::Path::new("/dev/termination-log").exists();
        let told = ended(&lab, name, script, more).await;
        assert_eq!(told.message.as_deref(), expected, "{name}");
        assert_eq!(std::path::Path::new("/dev/termination-log").exists(), is_there, "{name}");
    }
}

/// Each run has its own message; that of the previous run is in its last state.
#[tokio::test]
async fn the_words_of_the_run_before_are_kept() {
    let lab = TestCluster::new().await;
    let script = "test -e again && sleep 1000; touch again; echo first > $HOMEOSTAT_TERMINATION_LOG; exit 1";
    lab.shell("twice", script, "Always").await;
    let pod = lab.until("twice", "runs again", |pod| {
        main_status(pod).is_some_and(|one| one.restart_count == 1 && one.started == Some(true))
    });
    let last = main_status(&pod.await).unwrap().last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(last.message.as_deref(), Some("first\n"));
}

#[tokio::test]
async fn without_namespaces_a_variable_names_the_file() {
    let lab = TestCluster::with(NodeOptions::without_namespaces).await;
    let script = "echo $TEXT > $HOMEOSTAT_TERMINATION_LOG; cat $HOME/dev/termination-log; exit 1";
    let told = ended(&lab, "named", script, json!({"env": [{"name": "TEXT", "value": "here"}]})).await;
    assert_eq!(told.message.as_deref(), Some("here\n"));
    let pod = lab.get("named").await.unwrap();
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "here\n");
}
