//! Tests volumes: files exist at the requested paths, or where the node says.

use homeostat_workloads::node::NodeOptions;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, folder_for_all, is_root};

async fn with_sources(change: impl FnOnce(NodeOptions) -> NodeOptions) -> TestCluster {
    let lab = TestCluster::with(change).await;
    lab.create::<ConfigMap>(json!({"metadata": {"name": "files"}, "data": {"a.txt": "A", "b.txt": "B"}}))
        .await;
    lab.create::<Secret>(json!({"metadata": {"name": "keys"}, "stringData": {"key": "hush"}})).await;
    lab
}

fn spec(script: &str, mounts: &Value) -> Value {
    let container =
        json!({"name": "main", "image": "none", "command": ["sh", "-c", script], "volumeMounts": mounts});
    json!({"restartPolicy": "Never", "containers": [container], "volumes": [
        {"name": "empty", "emptyDir": {}},
        {"name": "files", "configMap": {"name": "files"}},
        {"name": "one", "configMap": {"name": "files", "items": [{"key": "a.txt", "path": "deep/renamed"}]}},
        {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256}},
        {"name": "self", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "all", "projected": {"sources": [{"configMap": {"name": "files"}}, {"secret": {"name": "keys"}}]}},
    ]})
}

/// Volumes are reached through the variable, which works for every container whatever the system supports.
#[tokio::test]
async fn every_sort_is_a_folder() {
    let lab = with_sources(NodeOptions::without_namespaces).await;
    let names = ["empty", "files", "one", "keys", "self", "all"];
    let mounts: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "mountPath": format!("mnt/{name}")})).collect();
    let script = "cd $HOMEOSTAT_VOLUMES; cat files/a.txt files/b.txt one/deep/renamed keys/key self/name; echo; \
        ls all | tr '\\n' ' '; stat -c %a keys/key; echo x > empty/new && cat $HOME/mnt/empty/new";
    lab.pod("vols", spec(script, &json!(mounts))).await;
    let pod = lab.until_phase("vols", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "ABAhushvols\na.txt b.txt key 400\nx\n");
}

#[tokio::test]
async fn without_namespaces_a_mount_path_is_a_link_and_the_events_say_so() {
    let lab = with_sources(NodeOptions::without_namespaces).await;
    let mounts = json!([{"name": "files", "mountPath": "/etc/homeostat-test"}]);
    let script = "test ! -e /etc/homeostat-test && cat $HOME/etc/homeostat-test/a.txt";
    lab.pod("linked", spec(script, &mounts)).await;
    let pod = lab.until_phase("linked", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "A");
    lab.until_event("linked", "MountPathNotHonoured", "mountPath /etc/homeostat-test").await;
}

/// If the system supports mount namespaces, the paths are the requested ones, but only for the container.
#[tokio::test]
async fn with_namespaces_a_volume_is_where_it_was_asked_for() {
    let lab = with_sources(|options| options).await;
    let mounts = json!([
        {"name": "files", "mountPath": "/etc/homeostat-test"},
        {"name": "empty", "mountPath": "/homeostat-test/data"},
        {"name": "keys", "mountPath": "/homeostat-test/data/keys", "readOnly": true},
        {"name": "files", "mountPath": "/homeostat-test/b", "subPath": "b.txt"},
        // This comes after a path below the root, if that is our own, and is inside a folder of the host.
        {"name": "files", "mountPath": "/usr/homeostat-test/deep/er"},
        {"name": "host", "mountPath": "/homeostat-test/host", "readOnly": true},
        {"name": "files", "mountPath": "/homeostat-test/host/in/side"},
    ]);
    let script = "cat /etc/homeostat-test/a.txt /homeostat-test/b /homeostat-test/data/keys/key; \
        test -e /etc/passwd && echo x > /homeostat-test/data/new && cat /homeostat-test/data/new; \
        touch /homeostat-test/data/keys/more 2>/dev/null || echo read only; \
        cat /usr/homeostat-test/deep/er/a.txt /homeostat-test/host/in/side/a.txt /homeostat-test/host/file; \
        echo x 2>/dev/null > /homeostat-test/host/file || echo closed";
    let host = folder_for_all(0o777);
    std::fs::write(host.path().join("file"), "F").unwrap();
    let probe_file = std::path::Path::new("/proc/sys/kernel/unprivileged_userns_clone");
    let is_refused = std::fs::read_to_string(probe_file).is_ok_and(|text| text.trim() == "0");
    let mut spec = spec(script, &mounts);
    let volume = json!({"name": "host", "hostPath": {"path": host.path()}});
    spec["volumes"].as_array_mut().unwrap().push(volume);
    lab.pod("mounted", spec).await;
    let pod = lab.until("mounted", "ended", |pod| {
        matches!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded" | "Failed"))
    });
    let pod = pod.await;
    if is_refused {
        return;
    }
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "ABhushx\nread only\nAAFclosed\n");
    for path in ["/etc/homeostat-test", "/homeostat-test", "/usr/homeostat-test"] {
        assert!(!std::path::Path::new(path).exists(), "{path} is on the host");
    }
    assert_eq!(std::fs::read_dir(host.path()).unwrap().count(), 1, "nothing was made in the host's folder");
}

/// Tests the modes of single files, parts named by a variable, and read-only contents.
#[tokio::test]
async fn details_of_volumes_are_minded() {
    let lab = TestCluster::new().await;
    lab.create::<ConfigMap>(json!({"metadata": {"name": "tools"}, "data": {"run": "#!/bin/sh\necho ran\n"}}))
        .await;
    let script = "$HOMEOSTAT_VOLUMES/tools/run; stat -Lc %a $HOMEOSTAT_VOLUMES/self/name; \
        test -d $HOMEOSTAT_VOLUMES/empty/part-of-details && echo part; \
        if test -e /homeostat-test; then echo x 2>/dev/null > /homeostat-test/tools/more; \
        echo y > /homeostat-test/part/file && ls $HOMEOSTAT_VOLUMES/empty/part-of-details; fi; \
        ls $HOMEOSTAT_VOLUMES/tools";
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script],
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "volumeMounts": [
            {"name": "tools", "mountPath": "/homeostat-test/tools"},
            {"name": "self", "mountPath": "/homeostat-test/self"},
            {"name": "empty", "mountPath": "/homeostat-test/part", "subPathExpr": "part-of-$(POD)"}]});
    let volumes = json!([
        {"name": "tools", "configMap": {"name": "tools", "items": [{"key": "run", "path": "run", "mode": 493}]}},
        {"name": "self", "downwardAPI": {"items": [
            {"path": "name", "mode": 256, "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "empty", "emptyDir": {}}]);
    lab.pod("details", json!({"restartPolicy": "Never", "containers": [container], "volumes": volumes}))
        .await;
    let pod = lab.until_phase("details", "Succeeded").await;
    let said = lab.said(&pod, |_| ()).await.unwrap();
    assert!(["ran\n400\npart\nfile\nrun\n", "ran\n400\npart\nrun\n"].contains(&&*said), "{said}");
}

#[tokio::test]
async fn what_cannot_be_given_is_refused() {
    let lab = TestCluster::new().await;
    let file = lab.shared().join("file");
    std::fs::write(&file, "").unwrap();
    let token = json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    let folder = json!({"hostPath": {"path": file, "type": "Directory"}});
    let unknown = json!({"emptyDir": {}});
    for (name, mut volume, words) in [
        ("token", token, "cannot get a token for the ServiceAccount default"),
        ("folder", folder, "hostPath type check failed"),
        ("unknown", unknown, "names an unknown variable"),
    ] {
        volume["name"] = json!("given");
        let mut mount = json!({"name": "given", "mountPath": "/homeostat-test"});
        if name == "unknown" {
            mount["subPathExpr"] = json!("$(NOBODY)");
        }
        let container =
            json!({"name": "main", "image": "none", "command": ["true"], "volumeMounts": [mount]});
        let spec = json!({"serviceAccountName": "default", "containers": [container], "volumes": [volume]});
        lab.pod(name, spec).await;
        lab.until_event(name, "Failed", words).await;
    }
    let made = lab.shared().join("made");
    let container = json!({"name": "main", "image": "none", "command": ["true"],
        "volumeMounts": [{"name": "given", "mountPath": "/homeostat-test"}]});
    let volume = json!({"name": "given", "hostPath": {"path": made, "type": "FileOrCreate"}});
    lab.pod("made", json!({"restartPolicy": "Never", "containers": [container], "volumes": [volume]})).await;
    lab.until_phase("made", "Succeeded").await;
    assert!(made.is_file());
}

#[tokio::test]
async fn a_changed_config_map_reaches_the_running_container() {
    let lab = with_sources(|options| options).await;
    // Files are replaced one after the other.
    let script = "cd $HOMEOSTAT_VOLUMES/files; while ! grep -q new a.txt || test -e b.txt || ! test -e c.txt; \
        do sleep 0.02; done; ls";
    lab.pod("follows", spec(script, &json!([{"name": "files", "mountPath": "/homeostat-test"}]))).await;
    lab.until_phase("follows", "Running").await;
    let change = Patch::Merge(json!({"data": {"a.txt": "new", "b.txt": null, "c.txt": "C"}}));
    lab.api::<ConfigMap>().patch("files", &PatchParams::default(), &change).await.unwrap();
    let pod = lab.until_phase("follows", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "a.txt\nc.txt\n");
}

#[tokio::test]
async fn a_path_that_leads_out_is_refused() {
    let lab = with_sources(NodeOptions::without_namespaces).await;
    lab.pod("out", spec("true", &json!([{"name": "empty", "mountPath": "../../../../escape"}]))).await;
    lab.until_event("out", "Failed", "leads out of the volume").await;
}

/// Volumes belong to the Pod's group, and all its containers are members of it.
#[tokio::test]
async fn volumes_are_the_groups() {
    if !is_root("only root gives files to groups that its user is not in") {
        return;
    }
    let lab = with_sources(|options| options).await;
    let mounts = json!([{"name": "keys", "mountPath": "/homeostat-test/keys"},
        {"name": "empty", "mountPath": "/homeostat-test/empty"}]);
    let script = "id -G; cat /homeostat-test/keys/key; echo; stat -Lc '%a %g' /homeostat-test/keys/key; \
        echo x > /homeostat-test/empty/new; stat -c '%u %g' /homeostat-test/empty/new";
    let mut spec = spec(script, &mounts);
    spec["securityContext"] = json!({"runAsUser": 65534, "fsGroup": 4321, "supplementalGroups": [4322]});
    lab.pod("grouped", spec).await;
    let pod = lab.until_phase("grouped", "Succeeded").await;
    let said = lab.said(&pod, |_| ()).await.unwrap();
    assert_eq!(said, "65534 4321 4322\nhush\n440 4321\n65534 4321\n");
}

/// If a path cannot be provided, an event says where the volume is instead, and for which container.
#[tokio::test]
async fn without_namespaces_the_flaws_are_said() {
    let lab = with_sources(NodeOptions::without_namespaces).await;
    let mounts =
        json!([{"name": "empty", "mountPath": "/homeostat-test", "subPath": "part", "readOnly": true}]);
    lab.pod("open", spec("true", &mounts)).await;
    let open = "$HOMEOSTAT_VOLUMES/empty/part and $HOME/homeostat-test, and can be written to";
    lab.until_event("open", "MountPathNotHonoured", open).await;
}
