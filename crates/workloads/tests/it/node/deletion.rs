//! Tests deletion: processes are asked to exit, killed after the grace period, and the Pod is removed when none is
//! running any more.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::PatchParams;
use serde_json::json;

use super::test_cluster::{TestCluster, is_alive, main_status, pid, until_count, until_dead, with_word};

#[tokio::test]
async fn a_process_is_told_and_may_clean_up() {
    let lab = TestCluster::new().await;
    let file = lab.shared().join("cleaned");
    let script = format!("trap 'touch {}; exit 0' TERM; while :; do sleep 0.02; done", file.display());
    lab.shell("tidy", &script, "Always").await;
    let pid = pid(&lab.until_ready("tidy").await);
    lab.delete("tidy", None).await;
    lab.until_gone("tidy").await;
    assert!(!is_alive(pid) && file.exists());
}

#[tokio::test]
async fn one_that_does_not_listen_is_killed_after_its_grace() {
    let lab = TestCluster::new().await;
    let script = "trap '' TERM; echo up; while :; do sleep 0.02; done";
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script]});
    let spec = json!({"terminationGracePeriodSeconds": 3600, "containers": [container]});
    let pod = lab.pod("deaf", spec).await;
    let pid = pid(&lab.until_ready("deaf").await);
    lab.until_said(&pod, "up").await;
    lab.delete("deaf", Some(1)).await;
    // This happens long before its own hour is over.
    lab.until_gone("deaf").await;
    assert!(!is_alive(pid));
}

#[tokio::test]
async fn by_force_the_object_goes_first_and_the_process_at_once() {
    let lab = TestCluster::new().await;
    lab.shell("forced", "trap '' TERM; while :; do sleep 0.02; done", "Always").await;
    let pod = lab.until_ready("forced").await;
    lab.delete("forced", Some(0)).await;
    assert!(lab.get("forced").await.is_none());
    until_dead(pid(&pod)).await;
}

/// Children of the command exit with it, even if they left its process group.
#[tokio::test]
async fn nothing_is_left_of_a_family_of_processes() {
    let lab = TestCluster::new().await;
    let script = "sleep 1000 & echo child $!; setsid sleep 1000 & echo stray $!; (setsid sleep 1000 & echo orphan $!); \
                  echo all; wait";
    let pod = lab.shell("family", script, "Always").await;
    let said = lab.until_said(&pod, "all").await;
    let pids: Vec<i32> =
        said.lines().filter_map(|line| line.split_once(' ')).map(|(_, pid)| pid.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    lab.delete("family", Some(1)).await;
    lab.until_gone("family").await;
    for pid in pids {
        until_dead(pid).await;
    }
}

/// A number that no other test uses for sleeping.
fn seconds(number: u32) -> String {
    format!("{}.{number}", 100_000 + std::process::id())
}

/// Daemons of daemons, with their own environment and with children in other sessions.
fn hiding(time: &str) -> String {
    format!(
        "setsid env -i sleep {time} & setsid sh -c 'sleep {time}; true' & \
         (setsid sh -c 'setsid sh -c \"setsid env -i sleep {time}; true\"; true' &); \
         (env -i setsid sh -c 'sleep {time} & sleep {time}' &) ; exec sleep {time}"
    )
}

#[tokio::test]
async fn nothing_is_left_of_processes_that_hide() {
    let lab = TestCluster::new().await;
    let time = seconds(1);
    lab.shell("hides", &hiding(&time), "Always").await;
    until_count(&time, 6).await;
    lab.delete("hides", Some(1)).await;
    lab.until_gone("hides").await;
    assert!(with_word(&time).is_empty(), "when the Pod is gone, its processes are");
}

/// The same applies if the command exits by itself: the run ends when no process is left.
#[tokio::test]
async fn a_run_that_ended_has_no_processes() {
    let lab = TestCluster::new().await;
    let (time, go) = (seconds(2), lab.shared().join("go"));
    let wait = format!("sh -c 'while ! test -e {}; do sleep 0.02; done'", go.display());
    lab.shell("ended", &hiding(&time).replace(&format!("exec sleep {time}"), &wait), "Never").await;
    until_count(&time, 5).await;
    std::fs::write(go, "").unwrap();
    lab.until_phase("ended", "Succeeded").await;
    assert!(with_word(&time).is_empty());
}

#[tokio::test]
async fn a_clean_stop_leaves_nothing_that_hides() {
    let mut lab = TestCluster::new().await;
    let time = seconds(3);
    lab.shell("hides", &hiding(&time), "Always").await;
    until_count(&time, 6).await;
    lab.stop_node().await;
    assert!(with_word(&time).is_empty());
}

#[tokio::test]
async fn finalizers_of_others_hold_the_object_and_the_end_is_told() {
    let lab = TestCluster::new().await;
    let container = json!({"name": "main", "image": "none", "command": ["sleep", "1000"]});
    let held = json!({"metadata": {"name": "held", "finalizers": ["test.dev/hold"]}, "spec": {"containers": [container]}});
    lab.create::<Pod>(held).await;
    let pid = pid(&lab.until_ready("held").await);
    lab.delete("held", None).await;
    let pod = lab.until("held", "ended", |pod| {
        main_status(pod).unwrap().state.as_ref().unwrap().terminated.is_some()
            && pod.metadata.deletion_grace_period_seconds == Some(0)
    });
    let pod = pod.await;
    assert_eq!(main_status(&pod).unwrap().state.clone().unwrap().terminated.unwrap().exit_code, 143);
    assert!(!is_alive(pid));
    let patch = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    lab.api::<Pod>().patch("held", &PatchParams::default(), &patch).await.unwrap();
    lab.until_gone("held").await;
}

/// The files of a Pod are deleted with it.
#[tokio::test]
async fn the_folder_of_a_pod_goes_with_it() {
    let lab = TestCluster::new().await;
    let pod = lab.shell("files", "echo x; sleep 1000", "Always").await;
    lab.until_ready("files").await;
    let folder = lab.folder().join("pods").join(pod.metadata.uid.unwrap());
    assert!(folder.join("containers/main/0.log").exists());
    lab.delete("files", Some(1)).await;
    lab.until_gone("files").await;
    super::test_cluster::eventually(
        "the folder is gone",
        || async { (!folder.exists()).then_some(()) },
        || async { folder.display().to_string() },
    )
    .await;
    // This sleep is not a condition: it only gives late writers time, which must not create the folder again.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!folder.exists());
}

/// An excessive grace period counts as a long one and does not cause a panic.
#[tokio::test]
async fn a_grace_without_measure_is_borne() {
    let lab = TestCluster::new().await;
    let script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script]});
    let pod =
        lab.pod("long", json!({"terminationGracePeriodSeconds": i64::MAX, "containers": [container]})).await;
    lab.until_said(&pod, "up").await;
    lab.delete("long", None).await;
    lab.until_gone("long").await;
}
