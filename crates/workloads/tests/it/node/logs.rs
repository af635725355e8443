//! Tests the output of containers: as a whole, in part, while it is being written, and from the previous run.

use futures::StreamExt as _;
use homeostat_core::container_log::{LogRefusal, LogRequest};
use serde_json::json;

use super::test_cluster::{TestCluster, main_status};

#[tokio::test]
async fn parts_of_a_log() {
    let lab = TestCluster::new().await;
    lab.shell("talks", "for i in 1 2 3; do echo line $i; done; printf end >&2", "Never").await;
    let pod = lab.until_phase("talks", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "line 1\nline 2\nline 3\nend");
    assert_eq!(lab.said(&pod, |query| query.tail = Some(2)).await.unwrap(), "line 3\nend");
    assert_eq!(lab.said(&pod, |query| query.limit_bytes = Some(9)).await.unwrap(), "line 1\nli");
    let stamped = lab.said(&pod, |query| query.timestamps = true).await.unwrap();
    let (time, text) = stamped.lines().next().unwrap().split_once(' ').unwrap();
    assert_eq!(text, "line 1");
    let later = time.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_secs(3600);
    assert_eq!(lab.said(&pod, |query| query.since = Some(later)).await.unwrap(), "");
    let earlier = later - jiff::SignedDuration::from_secs(7200);
    assert_eq!(lab.said(&pod, |query| query.since = Some(earlier)).await.unwrap().lines().count(), 4);
}

#[tokio::test]
async fn a_log_is_followed_to_its_end() {
    let lab = TestCluster::new().await;
    let go = lab.shared().join("go");
    let script = format!("echo first; while ! test -e {}; do sleep 0.02; done; echo last", go.display());
    let pod = lab.shell("follow", &script, "Never").await;
    lab.until_said(&pod, "first").await;
    let whole = lab.said(&pod, |query| query.follow = true);
    let (whole, ()) = tokio::join!(whole, async { std::fs::write(go, "").unwrap() });
    assert_eq!(whole.unwrap(), "first\nlast\n");
}

/// Tests a slow client while files are rotated and dropped.
#[tokio::test]
async fn a_slow_follower_loses_nothing() {
    let lab = TestCluster::new().await;
    let go = lab.shared().join("go");
    let script =
        format!("echo first; while ! test -e {}; do sleep 0.02; done; seq 1000000; echo last", go.display());
    let pod = lab.shell("slow", &script, "Never").await;
    lab.until_said(&pod, "first").await;
    let query = LogRequest {
        pod: pod.metadata.uid.clone().unwrap(),
        container: "main".to_owned(),
        follow: true,
        ..LogRequest::default()
    };
    let mut pieces = lab.logs.read(query).await.unwrap();
    let mut whole = pieces.next().await.unwrap();
    std::fs::write(go, "").unwrap();
    lab.until_phase("slow", "Succeeded").await;
    while let Some(piece) = pieces.next().await {
        whole.extend(piece);
    }
    let whole = String::from_utf8(whole).unwrap();
    let numbers = whole.lines().filter_map(|line| line.parse::<u32>().ok());
    assert!(numbers.eq(1..=1_000_000), "{} lines", whole.lines().count());
    assert!(whole.ends_with("last\n"));
}

#[tokio::test]
async fn the_run_before_can_be_read() {
    let lab = TestCluster::new().await;
    let pod = lab.shell("again", "echo run; exit 1", "Always").await;
    lab.until("again", "restarted", |pod| main_status(pod).is_some_and(|one| one.restart_count >= 1)).await;
    assert_eq!(lab.said(&pod, |query| query.previous = true).await.unwrap(), "run\n");
    let once = lab.shell("once", "sleep 1000", "Always").await;
    lab.until_ready("once").await;
    assert_eq!(lab.said(&once, |query| query.previous = true).await, Err(LogRefusal::NoPrevious));
}

#[tokio::test]
async fn a_container_that_did_not_start_has_no_log() {
    let lab = TestCluster::new().await;
    let pod = lab.pod("idle", json!({"containers": [{"name": "main", "image": "nginx"}]})).await;
    lab.until_event("idle", "ErrImageNeverPull", "").await;
    assert_eq!(lab.said(&pod, |_| ()).await, Err(LogRefusal::NotStarted));
}

/// Output that is written faster than it is read still has bounded files, which contain the newest lines.
#[tokio::test]
async fn a_flood_is_bounded() {
    let lab = TestCluster::new().await;
    lab.shell("flood", "yes 0123456789 | head -n 600000; echo last", "Never").await;
    let pod = lab.until_phase("flood", "Succeeded").await;
    assert_eq!(lab.said(&pod, |query| query.tail = Some(1)).await.unwrap(), "last\n");
    let folder = lab.folder().join("pods").join(pod.metadata.uid.unwrap()).join("containers/main");
    let logs = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|one| one.path().to_string_lossy().contains(".log"));
    let bytes: Vec<u64> = logs.map(|entry| entry.metadata().unwrap().len()).collect();
    assert_eq!(bytes.len(), 2, "one is set aside, older ones are dropped");
    assert!(bytes.iter().all(|bytes| *bytes <= 10 * 1024 * 1024), "{bytes:?}");
}
