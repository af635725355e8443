//! Tests volume claims: folders that outlive Pods and nodes, and are deleted when they are no longer claimed.

use homeostat_workloads::node::NodeOptions;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition, eventually, folder_for_all, waiting};

fn claim(name: &str, more: &Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

/// A Pod that runs a script with the claim at `/homeostat-test`.
fn user(script: &str, claim: &str) -> Value {
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "disk", "mountPath": "/homeostat-test"}]});
    let volume = json!({"name": "disk", "persistentVolumeClaim": {"claimName": claim}});
    json!({"restartPolicy": "Never", "containers": [container], "volumes": [volume]})
}

fn volumes(lab: &TestCluster) -> Api<PersistentVolume> {
    Api::all(lab.client.clone())
}

async fn phases(lab: &TestCluster) -> Vec<String> {
    let all = volumes(lab).list(&ListParams::default()).await.unwrap().items;
    all.into_iter().filter_map(|volume| volume.status?.phase).collect()
}

async fn until_phases(lab: &TestCluster, expected: &[&str]) {
    let is_so = || async { (phases(lab).await == expected).then_some(()) };
    eventually(&format!("volumes are {expected:?}"), is_so, || async { format!("{:?}", phases(lab).await) })
        .await;
}

async fn until_claim(lab: &TestCluster, name: &str, phase: &str) -> PersistentVolumeClaim {
    let claims = lab.api::<PersistentVolumeClaim>();
    let find = || async {
        let found = claims.get(name).await.unwrap();
        Some(found).filter(|claim| claim.status.as_ref().unwrap().phase.as_deref() == Some(phase))
    };
    eventually(phase, find, || async { format!("{:?}", claims.get(name).await) }).await
}

async fn release(lab: &TestCluster, claim: &str) {
    lab.api::<PersistentVolumeClaim>().delete(claim, &DeleteParams::default()).await.unwrap();
}

fn folders(lab: &TestCluster) -> usize {
    std::fs::read_dir(lab.folder().join("claims")).map_or(0, Iterator::count)
}

/// The next Pod finds the data that a Pod wrote, even after the node was stopped; the data is deleted with the claim.
async fn keeps(change: fn(NodeOptions) -> NodeOptions, path: &str) {
    let mut lab = TestCluster::with(change).await;
    let classes: Api<StorageClass> = Api::all(lab.client.clone());
    assert_eq!(classes.get("standard").await.unwrap().provisioner, "homeostat.dev/folder");
    lab.create::<PersistentVolumeClaim>(claim("data", &json!({}))).await;
    let bound = until_claim(&lab, "data", "Bound").await;
    let spec = bound.spec.unwrap();
    assert_eq!(spec.storage_class_name.as_deref(), Some("standard"));
    assert_eq!(bound.status.unwrap().capacity.unwrap()["storage"].0, "1Gi");
    lab.said_by("writes", user(&format!("chmod 700 {path}; echo kept > {path}/file"), "data")).await;
    lab.delete("writes", Some(0)).await;
    lab.stop_node().await;
    lab.start_node(change).await;
    let told = lab.said_by("reads", user(&format!("cat {path}/file; stat -Lc %a {path}"), "data")).await;
    assert_eq!(told, "kept\n700\n", "as it was left");
    release(&lab, "data").await;
    until_phases(&lab, &["Bound"]).await;
    assert_eq!(folders(&lab), 1, "a Pod still has it");
    lab.delete("reads", Some(0)).await;
    until_phases(&lab, &[]).await;
    assert_eq!(folders(&lab), 0);
}

#[tokio::test]
async fn a_claim_outlives_its_pods() {
    keeps(|options| options, "$HOMEOSTAT_VOLUMES/disk").await;
}

#[tokio::test]
async fn without_namespaces_a_claim_is_a_link() {
    keeps(NodeOptions::without_namespaces, "$HOME/homeostat-test").await;
}

#[tokio::test]
async fn a_pod_waits_for_its_claim() {
    let lab = TestCluster::new().await;
    lab.pod("early", user("echo here > /homeostat-test/file; ls /homeostat-test", "late")).await;
    lab.until_event("early", "FailedScheduling", "persistentvolumeclaim \"late\" not found").await;
    let pod = lab.get("early").await.unwrap();
    assert_eq!(condition(&pod, "PodScheduled"), "False");
    lab.create::<PersistentVolumeClaim>(claim("late", &json!({}))).await;
    let pod = lab.until_phase("early", "Succeeded").await;
    assert_eq!(lab.said(&pod, |_| ()).await.unwrap(), "file\n");
    // The Pod is bound to the node by hand, without the scheduler.
    let mut forced = user("true", "never");
    forced["nodeName"] = json!("local");
    lab.pod("forced", forced).await;
    lab.until("forced", "refused", |pod| waiting(pod) == Some("CreateContainerConfigError")).await;
}

/// A volume created by an administrator is bound to a claim that fits, and its data is never removed.
#[tokio::test]
async fn a_volume_of_the_machine_is_bound_and_kept() {
    let lab = TestCluster::new().await;
    let host = folder_for_all(0o777);
    std::fs::write(host.path().join("file"), "old").unwrap();
    let volume = json!({"metadata": {"name": "host"}, "spec": {"storageClassName": "manual",
        "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": host.path()}}});
    let volume = serde_json::from_value(volume).unwrap();
    volumes(&lab).create(&PostParams::default(), &volume).await.unwrap();
    until_phases(&lab, &["Available"]).await;
    lab.create::<PersistentVolumeClaim>(claim("own", &json!({"storageClassName": "manual"}))).await;
    lab.create::<PersistentVolumeClaim>(claim("more", &json!({"storageClassName": "manual"}))).await;
    let bound = until_claim(&lab, "own", "Bound").await;
    assert_eq!(bound.status.unwrap().capacity.unwrap()["storage"].0, "5Gi");
    lab.until_event("more", "ProvisioningFailed", "storageclass.storage.k8s.io \"manual\" not found").await;
    assert_eq!(lab.said_by("reads", user("cat /homeostat-test/file", "own")).await, "old");
    lab.delete("reads", Some(0)).await;
    release(&lab, "own").await;
    until_phases(&lab, &["Released"]).await;
    assert!(host.path().join("file").exists());
}

/// An ephemeral claim is created for its Pod, and deleted with it.
#[tokio::test]
async fn an_ephemeral_volume_goes_with_its_pod() {
    let lab = TestCluster::new().await;
    let mut spec = user("echo x > /homeostat-test/file; exec sleep 1000", "");
    let template = json!({"spec": claim("", &json!({}))["spec"]});
    spec["volumes"][0] = json!({"name": "disk", "ephemeral": {"volumeClaimTemplate": template}});
    lab.pod("scratch", spec).await;
    lab.until_ready("scratch").await;
    until_claim(&lab, "scratch-disk", "Bound").await;
    assert_eq!(folders(&lab), 1);
    lab.delete("scratch", Some(0)).await;
    until_phases(&lab, &[]).await;
    assert_eq!(folders(&lab), 0);
}

/// A user who may write claims in a namespace can make one name any volume. Only the claim that the volume itself names
/// is mounted.
#[tokio::test]
async fn a_claim_that_says_it_has_the_volume_of_another_gets_nothing() {
    let lab = TestCluster::new().await;
    lab.create::<PersistentVolumeClaim>(claim("victim", &json!({}))).await;
    let victim = until_claim(&lab, "victim", "Bound").await;
    let volume = victim.spec.unwrap().volume_name.unwrap();
    lab.said_by("writes", user("echo private > /homeostat-test/file", "victim")).await;
    let taken = json!({"storageClassName": "standard", "volumeName": volume});
    lab.create::<PersistentVolumeClaim>(claim("thief", &taken)).await;
    // The Pod is bound to the node by hand, without the scheduler, which would wait for the claim.
    let mut spec = user("cat /homeostat-test/file", "thief");
    spec["nodeName"] = json!("local");
    lab.pod("reads", spec).await;
    let claims = lab.api::<PersistentVolumeClaim>();
    let lie = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    // The claim controller corrects the status, so the false one is repeated until the Pod has seen it.
    let seen = || async {
        claims.patch_status("thief", &PatchParams::default(), &lie).await.unwrap();
        let told = lab.events_of("reads").await;
        let is_over = matches!(
            lab.get("reads").await.unwrap().status.unwrap().phase.as_deref(),
            Some("Running" | "Succeeded" | "Failed")
        );
        assert!(!is_over, "it was started: {told:?}");
        told.iter().any(|words| words.contains("is not bound to this claim")).then_some(())
    };
    eventually("the claim is found out", seen, || async { format!("{:?}", lab.events_of("reads").await) })
        .await;
}

#[tokio::test]
async fn what_no_folder_can_be_is_refused() {
    let lab = TestCluster::new().await;
    lab.create::<PersistentVolumeClaim>(claim("device", &json!({"volumeMode": "Block"}))).await;
    lab.until_event("device", "ProvisioningFailed", "use volumeMode Filesystem").await;
    lab.create::<PersistentVolumeClaim>(claim("none", &json!({"storageClassName": ""}))).await;
    lab.until_event("none", "FailedBinding", "no storage class is set").await;
    until_claim(&lab, "none", "Pending").await;
    assert_eq!(folders(&lab), 0);
}
