//! Tests that a Pod's paths never reach the host, whatever it puts into its volumes and its home.
//!
//! Most of this requires that the node is root: links in a volume are dangerous if the node has more permissions than
//! the container.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::test_cluster::{TestCluster, folder_for_all, is_root, main_status, waiting};

#[expect(clippy::needless_pass_by_value, reason = "calls read better with literals")]
fn container(script: &str, more: Value) -> Value {
    let mut container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script]});
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    container
}

/// Two empty volumes and the container; the Pod runs as `nobody` if that is requested.
#[expect(clippy::needless_pass_by_value, reason = "calls read better with literals")]
fn spec(container: Value, is_nobody: bool) -> Value {
    let mut spec = json!({"restartPolicy": "Never", "containers": [container],
        "volumes": [{"name": "m", "emptyDir": {}}, {"name": "second", "emptyDir": {}}]});
    if is_nobody {
        spec["securityContext"] = json!({"runAsUser": 65534});
    }
    spec
}

async fn ended(lab: &TestCluster, name: &str) -> Pod {
    let is_over =
        |pod: &Pod| matches!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded" | "Failed"));
    lab.until(name, "ended", is_over).await
}

async fn said(lab: &TestCluster, name: &str, spec: Value) -> String {
    lab.pod(name, spec).await;
    let pod = ended(lab, name).await;
    let said = lab.said(&pod, |_| ()).await;
    said.unwrap_or_else(|_| panic!("{}", serde_json::to_string_pretty(&pod.status).unwrap()))
}

/// A folder of the host that all users may write to.
fn target() -> TempDir {
    folder_for_all(0o777)
}

fn is_empty(folder: &TempDir) -> bool {
    fs::read_dir(folder.path()).unwrap().next().is_none()
}

#[tokio::test]
async fn nothing_is_mounted_at_the_root() {
    let lab = TestCluster::new().await;
    let was_there = Path::new("/dev/termination-log").exists();
    for (name, path) in [("root", "/"), ("dot", "/./"), ("up", "/tmp/..")] {
        let mounts = json!({"volumeMounts": [{"name": "m", "mountPath": path}]});
        lab.pod(name, spec(container("true", mounts), false)).await;
        lab.until_event(name, "Failed", &format!("volume m cannot be mounted at {path}")).await;
        lab.until(name, "waits", |pod| waiting(pod) == Some("CreateContainerConfigError")).await;
    }
    lab.pod("words", spec(container("true", json!({"terminationMessagePath": "/"})), false)).await;
    lab.until_event("words", "Failed", "cannot be mounted at /").await;
    assert_eq!(Path::new("/dev/termination-log").exists(), was_there);
}

/// An earlier container without permissions creates links; then the node, with all permissions, has to follow the path.
#[tokio::test]
async fn a_link_in_a_volume_leads_nowhere() {
    if !is_root("only root runs containers as somebody else") {
        return;
    }
    let (lab, target) = (TestCluster::new().await, target());
    let first = format!(
        "cd $HOMEOSTAT_VOLUMES/m; ln -s / root; ln -s {0} link; ln -s ../../.. up; ln -s {0} $HOME/l",
        target.path().display()
    );
    let m = json!({"name": "m", "mountPath": "/homeostat-test/m"});
    let part = |part: &str| json!({"volumeMounts": [{"name": "m", "mountPath": "/homeostat-test/p", "subPath": part}]});
    let second = |path: &str| json!({"volumeMounts": [m, {"name": "second", "mountPath": path}]});
    let words = |path: &str| json!({"volumeMounts": [m], "terminationMessagePath": path});
    let (out, through) = ("leads out of the volume", "a symbolic link in a volume");
    for (name, main, refused_with) in [
        ("part", part("link"), out),
        ("part-below", part(&format!("root{}/made", target.path().display())), out),
        ("part-up", part("up/made"), out),
        ("home", second("l/made"), out),
        ("home-words", words("l/made"), out),
        ("second", second("/homeostat-test/m/link/made"), through),
        ("second-itself", second("/homeostat-test/m/link"), through),
        ("words", words("/homeostat-test/m/link/made"), through),
        ("mounted-home", second("/run/homeostat/home/l/made"), through),
    ] {
        let mut spec = spec(container("ls -a /homeostat-test/p", main), true);
        let mut init = container(&first, json!({"volumeMounts": [m]}));
        init["name"] = json!("first");
        spec["initContainers"] = json!([init]);
        lab.pod(name, spec).await;
        let refused = lab.until(name, refused_with, |pod| {
            let state = main_status(pod).and_then(|status| status.state.clone()).unwrap_or_default();
            let waits = state.waiting.and_then(|waiting| waiting.message);
            let ended = state.terminated.and_then(|terminated| terminated.message);
            waits.or(ended).is_some_and(|message| message.contains(refused_with))
        });
        refused.await;
        assert!(is_empty(&target), "{name}: something was made on the host");
    }
}

/// The owner of a node can let Pods be root, who can do anything; the node still does not follow their links.
#[tokio::test]
async fn a_volume_replaced_by_a_link_is_made_anew() {
    if !is_root("only root replaces a volume") {
        return;
    }
    // In a mount namespace a volume is a mount, which cannot be replaced.
    let lab = TestCluster::with(|options| options.run_as("root").without_namespaces()).await;
    let target = target();
    lab.create::<ConfigMap>(json!({"metadata": {"name": "files"}, "data": {"a": "A"}})).await;
    let mounts = json!({"volumeMounts": [{"name": "files", "mountPath": "/homeostat-test/f"},
        {"name": "m", "mountPath": "/homeostat-test/m"}]});
    let mut spec = spec(container("cat $HOMEOSTAT_VOLUMES/files/a", mounts.clone()), false);
    let replace = format!(
        "cd $HOMEOSTAT_VOLUMES; for one in files m; do rm -r $one; ln -s {} $one; done",
        target.path().display()
    );
    let mut init = container(&replace, mounts);
    init["name"] = json!("first");
    spec["initContainers"] = json!([init]);
    let volume = json!({"name": "files", "configMap": {"name": "files"}});
    spec["volumes"].as_array_mut().unwrap().push(volume);
    assert_eq!(said(&lab, "replaced", spec).await, "A");
    assert!(is_empty(&target));
}

/// The node's own folder is below `/tmp` here: the mount that hides it must not hide other mounts.
#[tokio::test]
async fn a_volume_may_cover_the_folder_of_the_node() {
    let lab = TestCluster::new().await;
    let mounts = json!({"volumeMounts": [{"name": "m", "mountPath": "/tmp"},
        {"name": "second", "mountPath": "/tmp/deep/er", "subPath": "part"}]});
    let script = "echo x > /tmp/new && echo y > /tmp/deep/er/new && ls /tmp | tr '\\n' ' '; \
        echo bye > /dev/termination-log";
    lab.pod("covered", spec(container(script, mounts.clone()), false)).await;
    let pod = lab.until_phase("covered", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "deep new ");
    let state = main_status(&pod).unwrap().state.clone().unwrap();
    assert_eq!(state.terminated.unwrap().message.as_deref(), Some("bye\n"));
    if is_root("only root runs containers as somebody else") {
        assert_eq!(said(&lab, "other", spec(container(script, mounts), true)).await, "deep new ");
    }
}

#[tokio::test]
async fn a_part_of_a_volume_is_as_open_as_the_whole() {
    if !is_root("only root runs containers as somebody else") {
        return;
    }
    let lab = TestCluster::new().await;
    let script = "cd /homeostat-test; echo x > new; stat -c '%a' .; stat -c '%g' new; cat $HOMEOSTAT_VOLUMES/m/a/b/new";
    let mounts = json!({"volumeMounts": [{"name": "m", "mountPath": "/homeostat-test", "subPath": "a/b"}]});
    let mut spec = spec(container(script, mounts), true);
    assert_eq!(said(&lab, "open", spec.clone()).await, "777\n65534\nx\n");
    spec["securityContext"]["fsGroup"] = json!(4321);
    assert_eq!(said(&lab, "group", spec).await, "2777\n4321\nx\n");
}

#[tokio::test]
async fn what_is_made_in_dev_and_run_is_the_containers_own() {
    if !is_root("only root runs containers as somebody else") {
        return;
    }
    let lab = TestCluster::with(|options| options.run_as("root")).await;
    let script =
        "for one in /dev /run; do echo x > $one/homeostat-test-own; cat $one/homeostat-test-own; done";
    assert_eq!(said(&lab, "views", spec(container(script, json!({})), false)).await, "x\nx\n");
    for folder in ["/dev", "/run"] {
        assert!(!Path::new(folder).join("homeostat-test-own").exists(), "{folder}");
    }
}

#[tokio::test]
async fn every_user_of_a_pod_has_a_home() {
    if !is_root("only root runs containers as somebody else") {
        return;
    }
    let lab = TestCluster::new().await;
    let script = "touch /homeostat-test/$ME; until test -e /homeostat-test/$OTHER; do sleep 0.02; done; \
        echo x > $HOME/mine && stat -c %u $HOME && cat mine";
    let one = |name: &str, other: &str, user: u32| {
        let mut one = container(
            script,
            json!({"env": [{"name": "ME", "value": name}, {"name": "OTHER", "value": other}],
            "securityContext": {"runAsUser": user},
            "volumeMounts": [{"name": "m", "mountPath": "/homeostat-test"}]}),
        );
        one["name"] = json!(name);
        one
    };
    let mut spec = spec(one("main", "side", 65534), false);
    spec["containers"].as_array_mut().unwrap().push(one("side", "main", 1234));
    lab.pod("homes", spec).await;
    let pod = lab.until_phase("homes", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "65534\nx\n");
    let side = lab.said(&pod, |query| query.container = "side".to_owned()).await;
    assert_eq!(side.unwrap(), "1234\nx\n");
}

/// If a folder of the machine cannot be used, the message names the requested path.
#[tokio::test]
async fn a_refused_host_path_is_named_by_its_mount_path() {
    if !is_root("only root has folders that its Pods may not enter") {
        return;
    }
    let (lab, closed) = (TestCluster::new().await, TempDir::new().unwrap());
    let mounts = json!({"volumeMounts": [{"name": "host", "mountPath": "/homeostat-test/host"}]});
    let mut spec = spec(container("true", mounts), false);
    let path = closed.path().join("new");
    let volume = json!({"name": "host", "hostPath": {"path": path, "type": "DirectoryOrCreate"}});
    spec["volumes"].as_array_mut().unwrap().push(volume);
    lab.pod("refused", spec).await;
    let pod = ended(&lab, "refused").await;
    let state = main_status(&pod).unwrap().state.clone().unwrap();
    let message = state.terminated.unwrap().message.unwrap();
    assert!(message.starts_with("cannot mount at /homeostat-test/host: Permission denied"), "{message}");
}

/// The variable points to exactly what the container mounts, with no wider access.
#[tokio::test]
async fn the_folder_of_volumes_is_no_way_around_a_mount() {
    if !is_root("mount namespaces are certain for root only") {
        return;
    }
    let lab = TestCluster::new().await;
    lab.create::<ConfigMap>(json!({"metadata": {"name": "files"}, "data": {"a": "A"}})).await;
    let script = "cd $HOMEOSTAT_VOLUMES; ls | tr '\\n' ' '; for one in m/new files/a; do \
        (echo x > $one) 2>/dev/null || echo refused; done; cat files/a";
    let mounts = json!({"volumeMounts": [{"name": "files", "mountPath": "/homeostat-test/f"},
        {"name": "m", "mountPath": "/homeostat-test/m", "readOnly": true}]});
    let mut spec = spec(container(script, mounts), false);
    let volume = json!({"name": "files", "configMap": {"name": "files"}});
    spec["volumes"].as_array_mut().unwrap().push(volume);
    assert_eq!(said(&lab, "around", spec).await, "files m refused\nrefused\nA");
}

/// `$HOME` contains links to folders that the container's user can reach.
#[tokio::test]
async fn another_user_reaches_what_is_below_its_home() {
    if !is_root("only root runs containers as somebody else") {
        return;
    }
    let lab = TestCluster::new().await;
    let script = "echo x > data/new; cat data/new $HOMEOSTAT_VOLUMES/m/part/new; \
        echo bye > last; cat $HOMEOSTAT_TERMINATION_LOG";
    let more = json!({"terminationMessagePath": "last",
        "volumeMounts": [{"name": "m", "mountPath": "data", "subPath": "part"}]});
    lab.pod("relative", spec(container(script, more), true)).await;
    let pod = lab.until_phase("relative", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "x\nx\nbye\n");
    let state = main_status(&pod).unwrap().state.clone().unwrap();
    assert_eq!(state.terminated.unwrap().message.as_deref(), Some("bye\n"));
}
