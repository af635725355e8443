//! Tests nodes and supervisors that exit and start: processes are found again or stopped, and nothing runs forever.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::test_cluster::{
    TestCluster, condition, eventually, field, is_alive, kill, main_status, parent, pid, until_count,
    until_dead, with_word,
};

#[tokio::test]
async fn a_new_node_finds_the_processes_of_the_old_one() {
    let mut lab = TestCluster::with(|options| options.outlives_server(Duration::from_secs(60))).await;
    let go = lab.shared().join("go");
    let script =
        format!("echo before; while ! test -e {}; do sleep 0.02; done; echo after; exit 5", go.display());
    let runs = lab.shell("runs", &script, "Never").await;
    let ends = lab.shell("ends", &script, "Never").await;
    let first = pid(&lab.until_ready("runs").await);
    lab.until_ready("ends").await;
    lab.abort_node().await;
    // One exits while there is no node; its exit code is not lost.
    let gone = pid(&lab.get("ends").await.unwrap());
    std::fs::write(&go, "").unwrap();
    until_dead(gone).await;
    until_dead(first).await;
    lab.start_node(|options| options.outlives_server(Duration::from_secs(60))).await;
    for pod in [&runs, &ends] {
        let name = pod.metadata.name.as_deref().unwrap();
        let seen = lab.until_phase(name, "Failed").await;
        let ended = main_status(&seen).unwrap().state.clone().unwrap().terminated.unwrap();
        assert_eq!((ended.exit_code, main_status(&seen).unwrap().restart_count), (5, 0), "{name}");
        assert_eq!(lab.said(pod, |_| ()).await.unwrap(), "before\nafter\n");
    }
}

#[tokio::test]
async fn a_running_process_is_adopted_not_restarted() {
    let mut lab = TestCluster::with(|options| options.outlives_server(Duration::from_secs(60))).await;
    lab.shell("stays", "exec sleep 1000", "Always").await;
    let before = pid(&lab.until_ready("stays").await);
    lab.replace_node(|options| options.outlives_server(Duration::from_secs(60))).await;
    let pod = lab.until_ready("stays").await;
    assert_eq!((pid(&pod), main_status(&pod).unwrap().restart_count), (before, 0));
    assert!(is_alive(before));
    lab.delete("stays", Some(1)).await;
    lab.until_gone("stays").await;
    assert!(!is_alive(before));
}

#[tokio::test]
async fn processes_of_a_node_that_stays_away_end() {
    let mut lab = TestCluster::with(|options| options.outlives_server(Duration::from_millis(50))).await;
    lab.shell("left", "sleep 1000", "Always").await;
    let pid = pid(&lab.until_ready("left").await);
    lab.abort_node().await;
    until_dead(pid).await;
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_processes_along_and_they_are_started_again() {
    let lab = TestCluster::new().await;
    lab.shell("again", "exec sleep 1000", "Always").await;
    let before = pid(&lab.until_ready("again").await);
    kill(parent(before));
    until_dead(before).await;
    let pod = lab.until("again", "restarted", is_taken_up).await;
    assert!(is_alive(super::test_cluster::pid(&pod)));
    let last = main_status(&pod).unwrap().last_state.clone().unwrap().terminated.unwrap();
    assert_eq!(last.reason.as_deref(), Some("ContainerStatusUnknown"));
}

/// Returns whether it is ready again after the node interrupted it. That is not a restart: Jobs count those as
/// failures.
fn is_taken_up(pod: &Pod) -> bool {
    main_status(pod).is_some_and(|one| {
        let last = one.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        let why = last.and_then(|last| last.reason.as_deref());
        one.ready && one.restart_count == 0 && matches!(why, Some("NodeStopped" | "ContainerStatusUnknown"))
    })
}

/// Creates a Pod with three processes, two of which hide, and returns their supervisor, and the time they sleep, by
/// which they are found.
async fn family(lab: &TestCluster, number: u32) -> (i32, String) {
    let time = format!("{}.{number}", 100_000 + std::process::id());
    let command = format!("setsid env -i sleep {time} & env -i sleep {time} & sleep {time}");
    lab.shell("family", &command, "Always").await;
    (parent(pid(&lab.until_ready("family").await)), time)
}

/// Children of the command do not die with the supervisor by themselves: the guard stops them, even without a node.
#[tokio::test]
async fn a_killed_supervisor_and_server_leave_no_children() {
    let mut lab = TestCluster::with(|options| options.outlives_server(Duration::from_secs(60))).await;
    let (supervisor, time) = family(&lab, 11).await;
    until_count(&time, 3).await;
    lab.abort_node().await;
    kill(supervisor);
    until_count(&time, 0).await;
}

/// If the guard is killed as well, the next supervisor stops the processes before it starts any.
#[tokio::test]
async fn the_next_supervisor_ends_what_nobody_could() {
    let mut lab = TestCluster::with(|options| options.outlives_server(Duration::from_secs(60))).await;
    let (supervisor, time) = family(&lab, 12).await;
    let before = until_count(&time, 3).await;
    lab.abort_node().await;
    kill(parent(supervisor));
    kill(supervisor);
    until_dead(supervisor).await;
    lab.start_node(|options| options).await;
    lab.until("family", "restarted", is_taken_up).await;
    let after = until_count(&time, 3).await;
    assert!(before.iter().all(|pid| !after.contains(pid)), "{before:?} {after:?}");
    lab.stop_node().await;
    assert!(with_word(&time).is_empty());
}

/// A container that creates orphans all the time: the supervisor reaps them as they exit.
#[tokio::test]
async fn ended_orphans_do_not_pile_up() {
    let lab = TestCluster::new().await;
    let script = "for i in $(seq 300); do (true &); done; echo made; exec sleep 1000";
    let pod = lab.shell("busy", script, "Always").await;
    let supervisor = parent(pid(&lab.until_ready("busy").await));
    lab.until_said(&pod, "made").await;
    let zombies = || {
        let children =
            std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
        let children = children.split_whitespace().map(|pid| pid.parse::<i32>().unwrap());
        children.filter(|pid| field(*pid, "State").starts_with('Z')).count()
    };
    eventually("no zombies", || async { (zombies() == 0).then_some(()) }, || async { zombies().to_string() })
        .await;
}

#[tokio::test]
async fn a_stopped_node_ends_everything_and_goes_on_later() {
    let mut lab = TestCluster::new().await;
    lab.shell("goes", "exec sleep 1000", "Always").await;
    let before = pid(&lab.until_ready("goes").await);
    lab.stop_node().await;
    assert!(!is_alive(before), "a clean stop leaves nothing");
    let stopped = lab.get("goes").await.unwrap();
    let state = main_status(&stopped).unwrap().state.clone().unwrap().terminated.unwrap();
    assert_eq!(
        (state.reason.as_deref(), condition(&stopped, "Ready").as_str()),
        (Some("NodeStopped"), "False")
    );
    lab.start_node(|options| options).await;
    let pod = lab.until("goes", "restarted", is_taken_up).await;
    assert!(is_alive(pid(&pod)));
    lab.until_started("goes", 2).await;
    // Runs that exit by themselves are counted as usual.
    kill(pid(&pod));
    lab.until("goes", "restarted", |pod| {
        main_status(pod).is_some_and(|one| one.restart_count == 1 && one.ready)
    })
    .await;
}

/// Containers that run only once fail with the node, and the status says that it was not their fault.
#[tokio::test]
async fn what_runs_once_is_disrupted_by_a_stop() {
    let mut lab = TestCluster::new().await;
    lab.shell("once", "exec sleep 1000", "Never").await;
    lab.until_ready("once").await;
    lab.shell("bad", "exit 1", "Never").await;
    lab.until_phase("bad", "Failed").await;
    lab.stop_node().await;
    for (name, expected) in [("once", "True"), ("bad", "")] {
        let pod = lab.until_phase(name, "Failed").await;
        assert_eq!(condition(&pod, "DisruptionTarget"), expected, "{name}");
    }
}

/// Files that the process which started the server left open are inherited by neither the supervisor nor a container.
#[tokio::test]
async fn open_files_are_not_inherited() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // A duplicate is inherited, unlike files opened by Rust.
    let _inherited = rustix::io::dup(&file).unwrap();
    let lab = TestCluster::new().await;
    lab.shell("looks", "exec sleep 1000", "Never").await;
    let process = pid(&lab.until_ready("looks").await);
    let name = file.path().file_name().unwrap().to_str().unwrap();
    for process in [process, parent(process)] {
        let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
        let open: Vec<_> = open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
        assert!(open.contains(&"/dev/null".into()), "{open:?}");
        assert!(!open.iter().any(|path| path.to_string_lossy().contains(name)), "{open:?}");
    }
}

/// A slow probe stops together with its container: a stop does not wait for it.
#[tokio::test]
async fn a_long_probe_does_not_outlive_its_container() {
    let mut lab = TestCluster::new().await;
    let time = format!("{}.13", 100_000 + std::process::id());
    let probe = serde_json::json!({"exec": {"command": ["sleep", time]}, "timeoutSeconds": 600});
    let container = serde_json::json!({"name": "main", "image": "none", "command": ["sleep", "1000"],
        "readinessProbe": probe});
    for name in ["deleted", "stopped"] {
        lab.pod(name, serde_json::json!({"containers": [container]})).await;
    }
    until_count(&time, 2).await;
    lab.delete("deleted", Some(1)).await;
    lab.until_gone("deleted").await;
    until_count(&time, 1).await;
    lab.stop_node().await;
    assert!(with_word(&time).is_empty());
}

#[tokio::test]
async fn a_pod_deleted_while_there_was_no_node_is_ended() {
    let mut lab = TestCluster::with(|options| options.outlives_server(Duration::from_secs(60))).await;
    lab.shell("lost", "sleep 1000", "Always").await;
    let pid = pid(&lab.until_ready("lost").await);
    lab.abort_node().await;
    lab.delete("lost", Some(0)).await;
    assert!(is_alive(pid));
    lab.start_node(|options| options).await;
    until_dead(pid).await;
}
