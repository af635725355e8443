//! Tests controllers that are stopped and started again: they find what they left behind, and do not change anything.

use homeostat_runtime::Kind;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::json;

use super::test_cluster::{TestCluster, template};

/// Returns the name and version of every object of this kind.
async fn versions<K: Kind>(lab: &TestCluster) -> Vec<(Option<String>, Option<String>)> {
    let objects = lab.list::<K>().await.into_iter();
    objects.map(|object| (object.meta().name.clone(), object.meta().resource_version.clone())).collect()
}

async fn everything(lab: &TestCluster) -> Vec<Vec<(Option<String>, Option<String>)>> {
    vec![
        versions::<Deployment>(lab).await,
        versions::<ReplicaSet>(lab).await,
        versions::<StatefulSet>(lab).await,
        versions::<Job>(lab).await,
        versions::<EndpointSlice>(lab).await,
        versions::<Pod>(lab).await,
        versions::<PodDisruptionBudget>(lab).await,
    ]
}

#[tokio::test(start_paused = true)]
async fn a_restart_changes_nothing() {
    let mut lab = TestCluster::new().await;
    let selected = |app: &str| json!({"matchLabels": {"app": app}});
    lab.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": selected("web"), "template": template("web", "ready")}}))
        .await;
    lab.create::<StatefulSet>(json!({"metadata": {"name": "db"}, "spec": {
        "replicas": 2, "serviceName": "db", "selector": selected("db"), "template": template("db", "ready")}}))
    .await;
    let mut pod = template("job", "wait");
    pod["spec"]["restartPolicy"] = json!("Never");
    lab.create::<Job>(json!({"metadata": {"name": "job"}, "spec": {"parallelism": 2, "template": pod}}))
        .await;
    lab.create::<Service>(json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80}]}}))
        .await;
    lab.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": {
        "maxUnavailable": "30%", "selector": selected("web")}}))
        .await;
    lab.pass(60).await;
    let before = everything(&lab).await;
    assert_eq!(before[5].len(), 7, "the Pods are there");
    lab.restart().await;
    assert_eq!(everything(&lab).await, before);
}
