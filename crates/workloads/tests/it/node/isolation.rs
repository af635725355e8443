//! Tests that Pods are isolated from each other, from the server's files, and from the users of the machine.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use homeostat_workloads::node::NodeOptions;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, field, folder_for_all, is_root, main_status, pid, waiting};

/// The first of the user ids that only the node assigns.
const FIRST: u32 = 0x7000_0000;
const WHY: &str = "only root runs Pods as others";

fn spec(script: &str, security: &Value) -> Value {
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script]});
    json!({"restartPolicy": "Never", "securityContext": security, "containers": [container]})
}

/// Returns the user of a process.
fn user(pid: i32) -> u32 {
    field(pid, "Uid").split_whitespace().next().unwrap().parse().unwrap()
}

/// A Pod that has a secret in its environment and waits.
async fn holder(lab: &TestCluster, name: &str, security: &Value) -> i32 {
    let mut spec = spec("exec sleep 1000", security);
    spec["containers"][0]["env"] = json!([{"name": "HELD", "value": format!("secret-of-{name}")}]);
    lab.pod(name, spec).await;
    pid(&lab.until_ready(name).await)
}

/// Prints what one Pod can read of another Pod's process.
async fn spied(lab: &TestCluster, name: &str, target: i32, security: &Value) -> String {
    let script = format!(
        "for file in environ maps cmdline root/etc/passwd cwd/. fd/1; do cat /proc/{target}/$file 2>/dev/null | tr '\\0' '\\n'; done; echo done"
    );
    lab.said_by(name, spec(&script, security)).await
}

/// Whether without a user, with `runAsNonRoot`, with the same user, as nobody, and as root in their own namespace: no
/// Pod can read from another.
#[tokio::test]
async fn pods_do_not_read_each_others_secrets() {
    if !is_root(WHY) {
        return;
    }
    for has_namespaces in [true, false] {
        let change =
            |options: NodeOptions| if has_namespaces { options } else { options.without_namespaces() };
        let lab = TestCluster::with(change).await;
        let all = [
            ("plain", json!({})),
            ("strict", json!({"runAsNonRoot": true})),
            ("named", json!({"runAsUser": 54_321})),
            ("nobody", json!({"runAsUser": 65_534})),
            ("root", json!({"runAsUser": 0})),
        ];
        // Without user namespaces, a specified user is the same for all Pods, and root is refused.
        let all = if has_namespaces { &all[..] } else { &all[..2] };
        let mut users = Vec::new();
        for (name, security) in all {
            let target = holder(&lab, name, security).await;
            users.push(user(target));
            for (other, security) in all {
                let said = spied(&lab, &format!("{other}-at-{name}"), target, security).await;
                assert!(
                    said.ends_with("done\n") && !said.contains("secret-of"),
                    "{other} reads {name}: {said}"
                );
            }
        }
        let own = users.iter().filter(|user| **user >= FIRST).count();
        assert_eq!(own, if has_namespaces { 4 } else { 2 }, "all but the one that is named: {users:?}");
        users.sort_unstable();
        users.dedup();
        assert_eq!(users.len(), all.len(), "each its own: {users:?}");
    }
}

/// Two Pods with one user are isolated by their user namespaces, and both see the same user.
#[tokio::test]
async fn who_names_the_user_of_another_is_told_so() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::new().await;
    let security = json!({"runAsUser": 54_322});
    let target = holder(&lab, "first", &security).await;
    assert_eq!(user(target), 54_322, "as it is: nobody of this machine has the number");
    let said = spied(&lab, "second", target, &security).await;
    assert_eq!(said.lines().last(), Some("done"));
    assert!(!said.contains("secret-of"), "{said}");
    lab.until_event(
        "second",
        "SecurityContextNotHonoured",
        "runAsUser 54322 is also that of the Pod default/first",
    )
    .await;
    assert!(!lab.events_of("first").await.iter().any(|event| event.contains("NotHonoured")), "it was alone");
}

/// A node that restarts, or follows a killed one, assigns the same users to its Pods.
#[tokio::test]
async fn a_user_stays_with_its_pod() {
    if !is_root(WHY) {
        return;
    }
    let mut lab = TestCluster::new().await;
    lab.shell(
        "stays",
        "echo mine >> $HOME/file; chmod 600 $HOME/file; cat $HOME/file; exec sleep 1000",
        "Always",
    )
    .await;
    let before = user(pid(&lab.until_ready("stays").await));
    assert!(before >= FIRST);
    lab.stop_node().await;
    lab.start_node(|options| options).await;
    let is_again = |pod: &Pod| {
        main_status(pod).is_some_and(|one| one.ready && one.last_state.clone().unwrap().terminated.is_some())
    };
    let pod = lab.until("stays", "runs again", is_again).await;
    assert_eq!(user(pid(&pod)), before);
    lab.until_said(&pod, "mine\nmine\n").await;
    lab.shell("other", "exec sleep 1000", "Always").await;
    assert_ne!(user(pid(&lab.until_ready("other").await)), before);
}

/// A folder like the server's: closed, with readable files in it, so that only a mount that covers it keeps Pods out.
fn precious() -> (tempfile::TempDir, std::path::PathBuf) {
    let above = folder_for_all(0o755);
    let data = above.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::create_dir(data.join("pki")).unwrap();
    for file in ["pki/ca.key", "kubeconfig"] {
        fs::write(data.join(file), "precious").unwrap();
        fs::set_permissions(data.join(file), fs::Permissions::from_mode(0o644)).unwrap();
    }
    (above, data)
}

/// Whatever its user and whatever it tries, a Pod cannot read the server's data.
#[tokio::test]
async fn no_pod_reads_what_the_server_keeps() {
    if !is_root(WHY) {
        return;
    }
    let (above, data) = precious();
    let other = folder_for_all(0o755);
    let kubeconfig = other.path().join("config");
    fs::write(&kubeconfig, "precious").unwrap();
    let lab = TestCluster::with(|options| options.hide(&data).hide(&kubeconfig)).await;
    let victim =
        lab.create::<Secret>(json!({"metadata": {"name": "keys"}, "stringData": {"key": "precious"}}));
    victim.await;
    let mut holds = spec("exec sleep 1000", &json!({}));
    holds["containers"][0]["volumeMounts"] = json!([{"name": "keys", "mountPath": "/keys"}]);
    holds["volumes"] = json!([{"name": "keys", "secret": {"secretName": "keys"}}]);
    let held = lab.pod("holds", holds).await;
    lab.until_ready("holds").await;
    let secret = lab.folder().join("pods").join(held.metadata.uid.unwrap()).join("volumes/keys");
    assert_eq!(fs::read_to_string(secret.join("key")).unwrap(), "precious", "else this tests nothing");
    let server = std::process::id();
    let paths: Vec<String> =
        [data.join("pki/ca.key"), data.join("kubeconfig"), kubeconfig.clone(), secret.join("key")]
            .iter()
            .flat_map(|path| {
                [format!("{}", path.display()), format!("/proc/{server}/root{}", path.display())]
            })
            .collect();
    let script = format!(
        "for file in {}; do cat $file; done 2>/dev/null; find /a /b /c /d -type f -exec cat '{{}}' ';' 2>/dev/null; \
         umount {} 2>/dev/null && cat {} 2>/dev/null; echo done",
        paths.join(" "),
        data.display(),
        paths[0]
    );
    for (name, security) in [
        ("plain", json!({})),
        ("named", json!({"runAsUser": 54_323})),
        ("root", json!({"runAsUser": 0})),
        (
            "roots-group",
            json!({"runAsUser": 54_323, "runAsGroup": 0, "supplementalGroups": [0, 6], "fsGroup": 0}),
        ),
        ("daemon", json!({"runAsUser": 1})),
    ] {
        assert_eq!(lab.said_by(name, spec(&script, &security)).await, "done\n", "{name}");
        let wished =
            [&*data, above.path(), &*secret, Path::new(&format!("/proc/{server}/root"))].map(Path::to_owned);
        for (index, path) in wished.iter().enumerate() {
            let name = format!("{name}-host-{index}");
            let mut asks = spec(&script, &security);
            asks["containers"][0]["volumeMounts"] = json!([{"name": "host", "mountPath": "/a"},
                {"name": "host", "mountPath": "/b", "subPath": "pki"}]);
            asks["volumes"] = json!([{"name": "host", "hostPath": {"path": path}}]);
            lab.pod(&name, asks).await;
            let pod = lab.until(&name, "ended", |pod| {
                matches!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded" | "Failed"))
            });
            let said = lab.said(&pod.await, |_| ()).await.unwrap_or_default();
            assert!(!said.contains("precious"), "{name}: {said}");
        }
        let asked_first = format!("{name}-host-0");
        lab.until_event(&asked_first, "HostPathNotHonoured", "the server keeps its data there").await;
    }
}

/// Root in a container has no permissions outside.
#[tokio::test]
async fn root_in_a_container_is_root_of_nothing_else() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::new().await;
    let roots = folder_for_all(0o755);
    fs::write(roots.path().join("file"), "old").unwrap();
    let script = format!(
        "id -u; echo x > {0}/made; chown 5:5 {0}/made && stat -c %u {0}/made; \
         {{ echo new > {1}/file; touch {1}/more; chmod 777 {1}; cat /etc/shadow; chroot /proc/1/root true; \
         mknod {0}/disk b 8 0; mount -t tmpfs none {0}; }} 2>/dev/null && echo outside; echo done",
        lab.shared().display(),
        roots.path().display()
    );
    assert_eq!(lab.said_by("root", spec(&script, &json!({"runAsUser": 0}))).await, "0\n5\ndone\n");
    assert!(fs::metadata(lab.shared().join("made")).unwrap().uid() >= FIRST);
    assert_eq!(fs::read_to_string(roots.path().join("file")).unwrap(), "old");
    let words = "rights of user 0 of this machine for container main, which sees itself as user 0 and is ";
    lab.until_event("root", "SecurityContextNotHonoured", words).await;
}

/// Without user namespaces, Pods cannot be mapped to other users of the machine: such Pods are refused, with the
/// reason.
#[tokio::test]
async fn without_namespaces_no_pod_is_a_user_of_the_machine() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::with(NodeOptions::without_namespaces).await;
    for (name, security, words) in [
        ("root", json!({"runAsUser": 0}), "cannot run as user 0, which is root on this machine"),
        ("daemon", json!({"runAsUser": 1}), "cannot run as user 1, which is"),
        ("group", json!({"runAsUser": 54_324, "runAsGroup": 0}), "cannot run as group 0, which is root"),
        ("given", json!({"runAsUser": FIRST + 5}), "this node assigns the IDs in this range itself"),
    ] {
        lab.pod(name, spec("true", &security)).await;
        lab.until_event(name, "Failed", words).await;
        let pod = lab.until(name, "refused", |pod| waiting(pod) == Some("CreateContainerConfigError")).await;
        assert_eq!(main_status(&pod).unwrap().container_id, None, "{name}");
    }
    let said = lab.said_by("groups", spec("id -G", &json!({"supplementalGroups": [0, 54_325]}))).await;
    assert!(said.split_whitespace().all(|group| group != "0") && said.contains("54325"), "{said}");
    lab.until_event("groups", "GroupsNotHonoured", "groups 0, which").await;
}

/// Without mounts, Pods use the paths of their folders, and cannot enter other folders.
#[tokio::test]
async fn without_namespaces_volumes_are_the_pods_own() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::with(NodeOptions::without_namespaces).await;
    lab.create::<Secret>(json!({"metadata": {"name": "keys"}, "stringData": {"key": "precious"}})).await;
    lab.create::<PersistentVolumeClaim>(json!({"metadata": {"name": "disk"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    let script = "cat $HOMEOSTAT_VOLUMES/keys/key; echo; echo kept > $HOMEOSTAT_VOLUMES/disk/file; \
        cat $HOME/data/disk/file; echo $HOMEOSTAT_VOLUMES $(readlink -f $HOMEOSTAT_VOLUMES/disk); exec sleep 1000";
    let mut holds = spec(script, &json!({}));
    holds["containers"][0]["volumeMounts"] =
        json!([{"name": "keys", "mountPath": "/keys"}, {"name": "disk", "mountPath": "/data/disk"}]);
    holds["volumes"] = json!([{"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]);
    let pod = lab.pod("holds", holds).await;
    let said = lab.until_said(&pod, "/claims/").await;
    assert!(said.starts_with("precious\nkept\n"), "{said}");
    let (volumes, disk) = said.lines().last().unwrap().split_once(' ').unwrap();
    for (name, security) in
        [("plain", json!({})), ("named", json!({"runAsUser": 54_326, "supplementalGroups": [54_327]}))]
    {
        let script = format!(
            "cat {volumes}/keys/key {disk}/file; ls {volumes} {disk}; echo x > {disk}/more; echo done"
        );
        assert_eq!(
            lab.said_by(name, spec(&format!("{{ {script}; }} 2>/dev/null"), &security)).await,
            "done\n",
            "{name}"
        );
    }
}

/// A claim's files belong to the claim's user: the next Pod can read them, and so can a second one at the same time,
/// which can still read nothing else.
#[tokio::test]
async fn the_files_of_a_claim_are_for_every_pod_that_has_it() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::new().await;
    for name in ["disk", "more"] {
        lab.create::<PersistentVolumeClaim>(json!({"metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
            .await;
    }
    let with = |script: &str, claims: &[&str]| {
        let mut spec = spec(script, &json!({}));
        spec["containers"][0]["volumeMounts"] =
            claims.iter().map(|name| json!({"name": name, "mountPath": format!("/data/{name}")})).collect();
        spec["volumes"] = claims
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
            .collect();
        spec["containers"][0]["env"] = json!([{"name": "HELD", "value": "secret-of-it"}]);
        spec
    };
    let write = "umask 077; mkdir -p /data/disk/deep; echo one > /data/disk/deep/file; echo two > /data/more/file; \
        chmod 700 /data/disk; exec sleep 1000";
    lab.pod("first", with(write, &["disk", "more"])).await;
    let first = pid(&lab.until_ready("first").await);
    let target = format!("cat /proc/{first}/environ");
    let read = format!(
        "until cat /data/disk/deep/file; do sleep 0.02; done 2>/dev/null; echo x >> /data/disk/deep/file; {target} 2>/dev/null | tr '\\0' '\\n'"
    );
    let said = lab.said_by("beside", with(&read, &["disk"])).await;
    assert_eq!(said, "one\n", "the files, and nothing of the process");
    lab.delete("first", Some(0)).await;
    lab.until_gone("first").await;
    // In a different order, the files of both now belong to a different user.
    let next = "cat /data/more/file /data/disk/deep/file; rm /data/disk/deep/file && echo gone";
    assert_eq!(lab.said_by("next", with(next, &["more", "disk"])).await, "two\none\nx\ngone\n");
}

/// All Pods run as the user that the node's owner specified, and as no other.
#[tokio::test]
async fn pods_run_as_the_user_the_owner_named() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::with(|options| options.run_as("daemon")).await;
    let target = holder(&lab, "first", &json!({})).await;
    let daemon = user(target);
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let line = passwd.lines().find(|line| line.starts_with("daemon:")).unwrap();
    assert_eq!(line.split(':').nth(2).unwrap(), daemon.to_string());
    let said = spied(&lab, "second", target, &json!({"runAsUser": daemon})).await;
    assert!(said.ends_with("done\n") && !said.contains("secret-of"), "{said}");
    for (name, security) in [("other", json!({"runAsUser": 54_328})), ("root", json!({"runAsUser": 0}))] {
        lab.pod(name, spec("true", &security)).await;
        lab.until_event(name, "Failed", "this node runs all Pods as daemon (--node-as)").await;
    }
    let found = homeostat_workloads::node::Node::connect(
        lab.client.clone(),
        NodeOptions::new().run_as("no-such-user"),
        homeostat_core::Clock::system(),
    );
    let error = found.await.err().unwrap().to_string();
    let words = "cannot run Pods as no-such-user: /etc/passwd has no user no-such-user: name a user in it, or give its number";
    assert_eq!(error, words);
}

/// The owner of a node can let Pods be root of the machine.
#[tokio::test]
async fn an_owner_can_let_pods_be_root() {
    if !is_root(WHY) {
        return;
    }
    let lab = TestCluster::with(|options| options.run_as("root")).await;
    let closed = folder_for_all(0o700);
    fs::write(closed.path().join("file"), "root's\n").unwrap();
    let script = format!("id -u; cat {}/file", closed.path().display());
    assert_eq!(lab.said_by("root", spec(&script, &json!({}))).await, "0\nroot's\n");
}

/// The program that the node's owner specified for an image runs even if its user could not reach it.
#[tokio::test]
async fn programs_of_images_are_found_with_the_nodes_rights() {
    if !is_root(WHY) {
        return;
    }
    let closed = folder_for_all(0o700);
    let (script, program) = (closed.path().join("script"), closed.path().join("program"));
    fs::write(&script, "#!/bin/sh\necho script $1\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy("/bin/echo", &program).unwrap();
    let lab = TestCluster::with(|options| {
        options
            .image("script", [script.display().to_string()])
            .image("program", [program.display().to_string()])
    })
    .await;
    for (image, expected) in [("script", "script here\n"), ("program", "here\n")] {
        let container = json!({"name": "main", "image": image, "args": ["here"]});
        let said = lab.said_by(image, json!({"restartPolicy": "Never", "containers": [container]})).await;
        assert_eq!(said, expected);
    }
    let container = json!({"name": "main", "image": "none", "command": [program]});
    lab.pod("by-itself", json!({"restartPolicy": "Never", "containers": [container]})).await;
    lab.until_event("by-itself", "Failed", "Permission denied").await;
}
