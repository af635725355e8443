//! Tests StatefulSets: order, names, claims, revisions.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, template};

fn set(replicas: i32, image: &str, spec: Value) -> Value {
    let mut set = json!({"metadata": {"name": "db"}, "spec": {
        "replicas": replicas, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
        "template": template("db", image)}});
    for (field, value) in spec.as_object().unwrap() {
        set["spec"][field] = value.clone();
    }
    set
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": template("db", image)}})
}

/// Returns the Pods as `name image`.
async fn pods(lab: &TestCluster) -> Vec<String> {
    let pods = lab.list::<Pod>().await;
    pods.iter()
        .map(|pod| {
            let image = pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap();
            format!("{} {image}", pod.metadata.name.as_deref().unwrap())
        })
        .collect()
}

fn counts(set: &Value) -> [i64; 5] {
    ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"]
        .map(|field| set["status"][field].as_i64().unwrap_or(0))
}

const DISK: &str = "disk";

fn disk() -> Value {
    json!([{"metadata": {"name": DISK}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])
}

#[tokio::test(start_paused = true)]
async fn pods_come_in_order_and_go_in_reverse() {
    let lab = TestCluster::new().await;
    lab.create::<StatefulSet>(set(2, "wait", json!({}))).await;
    assert_eq!(pods(&lab).await, ["db-0 wait"], "the second waits for the first");
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    lab.say("db-0", ready.clone()).await;
    assert_eq!(pods(&lab).await, ["db-0 wait", "db-1 wait"]);
    lab.say("db-1", ready).await;
    let db = lab.get::<StatefulSet>("db").await;
    assert_eq!(counts(&db), [2, 2, 2, 2, 2]);
    assert_eq!(db["status"]["currentRevision"], db["status"]["updateRevision"]);
    let pod = lab.get::<Pod>("db-1").await;
    assert_eq!(pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "db-1");
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("db-1"), &json!("db")));
    let events = lab.events("db").await;
    assert!(events.contains(&"SuccessfulCreate: Create Pod db-0 in StatefulSet db successful".to_owned()));
    lab.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(pods(&lab).await, ["db-0 wait"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_pod_comes_back_under_its_name() {
    let lab = TestCluster::new().await;
    lab.create::<StatefulSet>(set(3, "ready", json!({"podManagementPolicy": "Parallel"}))).await;
    let uid = |pod: Value| pod["metadata"]["uid"].clone();
    let before = uid(lab.get::<Pod>("db-1").await);
    lab.delete::<Pod>("db-1", &DeleteParams::default()).await;
    assert_ne!(uid(lab.get::<Pod>("db-1").await), before);
    lab.say("db-2", json!({"phase": "Failed"})).await;
    assert_eq!(lab.pods().await, ["ready Running"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_with_a_partition_and_back() {
    let lab = TestCluster::new().await;
    let strategy = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    lab.create::<StatefulSet>(set(3, "ready", strategy)).await;
    lab.patch::<StatefulSet>("db", image("ready2")).await;
    assert_eq!(pods(&lab).await, ["db-0 ready", "db-1 ready", "db-2 ready2"]);
    let db = lab.get::<StatefulSet>("db").await;
    assert_eq!(counts(&db), [3, 3, 3, 2, 1]);
    assert_ne!(db["status"]["currentRevision"], db["status"]["updateRevision"]);
    lab.delete::<Pod>("db-0", &DeleteParams::default()).await;
    assert_eq!(pods(&lab).await[0], "db-0 ready", "below the partition the current revision stays");
    let all = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    lab.patch::<StatefulSet>("db", all).await;
    assert_eq!(pods(&lab).await, ["db-0 ready2", "db-1 ready2", "db-2 ready2"]);
    assert_eq!(counts(&lab.get::<StatefulSet>("db").await), [3, 3, 3, 3, 3]);
    lab.patch::<StatefulSet>("db", image("ready")).await;
    assert_eq!(pods(&lab).await, ["db-0 ready", "db-1 ready", "db-2 ready"]);
    let mut numbers: Vec<i64> =
        lab.list::<ControllerRevision>().await.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "going back renumbers the old revision");
}

#[tokio::test(start_paused = true)]
async fn claims_are_made_and_kept() {
    let lab = TestCluster::new().await;
    lab.create::<StatefulSet>(set(2, "ready", json!({"volumeClaimTemplates": disk()}))).await;
    assert_eq!(lab.names::<PersistentVolumeClaim>().await, ["disk-db-0", "disk-db-1"]);
    let volumes = lab.get::<Pod>("db-1").await["spec"]["volumes"].clone();
    let claimed = volumes.as_array().unwrap().iter().find(|volume| volume["name"] == DISK).unwrap();
    assert_eq!(claimed["persistentVolumeClaim"]["claimName"], "disk-db-1");
    lab.delete::<StatefulSet>("db", &DeleteParams::background()).await;
    lab.pass(5).await;
    assert!(lab.pods().await.is_empty());
    assert_eq!(lab.names::<PersistentVolumeClaim>().await, ["disk-db-0", "disk-db-1"]);
}

#[tokio::test(start_paused = true)]
async fn claims_go_where_the_policy_says() {
    let lab = TestCluster::new().await;
    let spec = json!({"volumeClaimTemplates": disk(), "podManagementPolicy": "Parallel",
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Delete"}});
    lab.create::<StatefulSet>(set(3, "ready", spec)).await;
    assert_eq!(lab.names::<PersistentVolumeClaim>().await.len(), 3);
    lab.patch::<StatefulSet>("db", json!({"spec": {"replicas": 2}})).await;
    lab.pass(2).await;
    let claims: Vec<PersistentVolumeClaim> = lab.list().await;
    // Claims in use are protected by a finalizer that is never removed without volumes.
    let left = claims.iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()).count();
    assert_eq!(left, 2);
    lab.delete::<StatefulSet>("db", &DeleteParams::background()).await;
    lab.pass(5).await;
    let claims: Vec<PersistentVolumeClaim> = lab.list().await;
    assert!(claims.iter().all(|claim| claim.metadata.deletion_timestamp.is_some()));
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let lab = TestCluster::new().await;
    lab.create::<StatefulSet>(set(2, "ready", json!({"volumeClaimTemplates": disk()}))).await;
    lab.pass(5).await;
    let before = lab.get::<StatefulSet>("db").await["metadata"]["resourceVersion"].clone();
    lab.pass(3600).await;
    assert_eq!(lab.get::<StatefulSet>("db").await["metadata"]["resourceVersion"], before);
    assert_eq!(lab.list::<ControllerRevision>().await.len(), 1);
}
