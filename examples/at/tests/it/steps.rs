//! The steps from the first apply to DONE, and what happens when other users interfere.

use std::time::Duration;

use homeostat::k8s_openapi::api::core::v1::Pod;
use homeostat_example_at::{At, Phase};
use serde_json::json;

use crate::test_cluster::TestCluster;

const FIVE_MINUTES: Duration = Duration::from_secs(300);

#[tokio::test(start_paused = true)]
async fn the_seven_steps() {
    let lab = TestCluster::start().await;
    // 1 and 2: created, PENDING, and waiting until it is time.
    lab.create_at("demo", &lab.after(FIVE_MINUTES)).await;
    lab.settle().await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Pending));
    let runs = lab.runs("demo");
    lab.pass(Duration::from_secs(298)).await;
    assert_eq!(lab.runs("demo"), runs, "nobody looks before it is time");
    assert!(lab.names::<Pod>().await.is_empty());
    // 3 and 4: RUNNING, and the write of the status triggers the creation of the Pod.
    lab.pass(Duration::from_secs(2)).await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Running));
    assert_eq!(lab.names::<Pod>().await, ["demo-pod"]);
    let pod = lab.get::<Pod>("demo-pod").await;
    let command = pod.spec.unwrap().containers.remove(0).command.unwrap();
    assert_eq!(command, ["sh", "-c", "echo Hello Kubernetes"]);
    assert_eq!(pod.metadata.owner_references.unwrap()[0].controller, Some(true));
    // 5: the Pod runs; nothing is written.
    lab.mark("demo-pod", "Running", None).await;
    let before = lab.version("demo").await;
    lab.pass(FIVE_MINUTES).await;
    assert_eq!(lab.version("demo").await, before);
    // 6: the Pod ended.
    lab.mark("demo-pod", "Succeeded", Some(0)).await;
    lab.settle().await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Done));
    let (status, reason, message) = lab.condition("demo", "Complete").await.unwrap();
    assert_eq!((&*status, &*reason, &*message), ("True", "Succeeded", "the command exited with code 0"));
    // 7: reconciled once more, and at rest from then on.
    let (runs, before) = (lab.runs("demo"), lab.version("demo").await);
    lab.pass(Duration::from_secs(1800)).await;
    assert_eq!(lab.runs("demo"), runs);
    assert_eq!(lab.version("demo").await, before);
    assert_eq!(lab.events().await, ["Scheduled", "Due", "Started", "Succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_fails_is_done_and_says_so() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", crate::test_cluster::START).await;
    lab.settle().await;
    lab.mark("demo-pod", "Failed", Some(3)).await;
    lab.settle().await;
    assert_eq!(lab.phase("demo").await, Some(Phase::Done));
    let (_, reason, message) = lab.condition("demo", "Complete").await.unwrap();
    assert_eq!((&*reason, &*message), ("Failed", "the command exited with code 3"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_while_it_runs_is_made_again() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", crate::test_cluster::START).await;
    lab.settle().await;
    let first = lab.get::<Pod>("demo-pod").await.metadata.uid;
    lab.delete::<Pod>("demo-pod").await;
    lab.settle().await;
    assert_ne!(lab.get::<Pod>("demo-pod").await.metadata.uid, first);
    lab.mark("demo-pod", "Succeeded", Some(0)).await;
    lab.settle().await;
    lab.delete::<Pod>("demo-pod").await;
    lab.settle().await;
    assert!(lab.names::<Pod>().await.is_empty(), "what is done is not done again");
}

#[tokio::test(start_paused = true)]
async fn the_pod_goes_with_its_at() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", crate::test_cluster::START).await;
    lab.settle().await;
    assert_eq!(lab.names::<Pod>().await, ["demo-pod"]);
    lab.delete::<At>("demo").await;
    lab.settle().await;
    assert!(lab.names::<Pod>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_command_edited_while_it_waits_is_the_one_that_runs() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", &lab.after(FIVE_MINUTES)).await;
    lab.settle().await;
    lab.edit("demo", json!({"command": "date"})).await;
    lab.pass(FIVE_MINUTES).await;
    let pod = lab.get::<Pod>("demo-pod").await;
    assert_eq!(pod.spec.unwrap().containers.remove(0).command.unwrap()[2], "date");
}

#[tokio::test(start_paused = true)]
async fn the_shell_gets_the_command_as_it_is_written() {
    let lab = TestCluster::start().await;
    lab.create_at("demo", &lab.after(FIVE_MINUTES)).await;
    lab.settle().await;
    lab.edit("demo", json!({"command": "echo pid $$ $(HOSTNAME) $HOME"})).await;
    lab.pass(FIVE_MINUTES).await;
    let pod = lab.get::<Pod>("demo-pod").await;
    let command = pod.spec.unwrap().containers.remove(0).command.unwrap().remove(2);
    assert_eq!(command, "echo pid $$$$ $$(HOSTNAME) $$HOME", "two dollars are how Kubernetes writes one");
}

#[tokio::test(start_paused = true)]
async fn a_long_name_runs_too() {
    let lab = TestCluster::start().await;
    let names =
        ["a".repeat(253), format!("{}.b", "a".repeat(62)), format!("{}-{}", "a".repeat(49), "b".repeat(20))];
    for name in &names {
        lab.create_at(name, crate::test_cluster::START).await;
        lab.settle().await;
        let pod = lab.get::<At>(name).await.status.unwrap().pod.unwrap();
        assert!(pod.len() <= 63, "{pod}");
        lab.mark(&pod, "Succeeded", Some(0)).await;
        lab.settle().await;
        assert_eq!(lab.phase(name).await, Some(Phase::Done));
    }
    assert_eq!(lab.names::<Pod>().await.len(), names.len());
}
