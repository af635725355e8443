//! Tests PodDisruptionBudgets: evictions are granted while enough Pods stay ready.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::EvictParams;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition, template};

fn deployment(replicas: i32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "wait")}})
}

fn budget(mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    json!({"metadata": {"name": "web"}, "spec": spec})
}

async fn make_ready(lab: &TestCluster, pod: &str) {
    lab.say(pod, json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
}

/// Returns the code and the message of the response, if it is a refusal.
async fn evict(lab: &TestCluster, pod: &str) -> Result<(), (u16, String)> {
    match lab.api::<Pod>().evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            Err((status.code, causes.map(|cause| cause.message.as_str()).collect()))
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the expected, healthy, desired and allowed numbers.
async fn numbers(lab: &TestCluster) -> [i64; 4] {
    let status = lab.get::<PodDisruptionBudget>("web").await["status"].clone();
    ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"]
        .map(|field| status[field].as_i64().unwrap())
}

#[tokio::test(start_paused = true)]
async fn evictions_leave_enough_pods() {
    let lab = TestCluster::new().await;
    lab.create::<PodDisruptionBudget>(budget(json!({"minAvailable": 1}))).await;
    assert_eq!(numbers(&lab).await, [0, 0, 1, 0]);
    lab.create::<Deployment>(deployment(2)).await;
    let pods = lab.names::<Pod>().await;
    make_ready(&lab, &pods[0]).await;
    assert_eq!(numbers(&lab).await, [2, 1, 1, 0]);
    make_ready(&lab, &pods[1]).await;
    assert_eq!(numbers(&lab).await, [2, 2, 1, 1]);
    let told = lab.get::<PodDisruptionBudget>("web").await;
    assert_eq!(condition(&told, "DisruptionAllowed"), "True SufficientPods");
    assert_eq!(told["status"]["observedGeneration"], told["metadata"]["generation"]);

    assert_eq!(evict(&lab, &pods[0]).await, Ok(()));
    assert_eq!(evict(&lab, &pods[1]).await.unwrap_err().0, 429, "at once");
    lab.rest().await;
    let refusal = "The disruption budget web needs 1 healthy pods and has 1 currently".to_owned();
    assert_eq!(evict(&lab, &pods[1]).await, Err((429, refusal)), "the next is there but not ready");
    let told = lab.get::<PodDisruptionBudget>("web").await;
    assert_eq!(condition(&told, "DisruptionAllowed"), "False InsufficientPods");
    assert_eq!(told["status"].get("disruptedPods"), None, "it is gone");

    let next = lab.names::<Pod>().await.into_iter().find(|name| !pods.contains(name)).unwrap();
    make_ready(&lab, &next).await;
    assert_eq!(numbers(&lab).await, [2, 2, 1, 1]);
    assert_eq!(evict(&lab, &pods[1]).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn simultaneous_evictions_spend_a_budget_once() {
    let lab = TestCluster::new().await;
    lab.create::<Deployment>(deployment(2)).await;
    let pods = lab.names::<Pod>().await;
    for pod in &pods {
        make_ready(&lab, pod).await;
    }
    lab.create::<PodDisruptionBudget>(budget(json!({"minAvailable": "50%"}))).await;
    assert_eq!(numbers(&lab).await, [2, 2, 1, 1]);
    let (one, other) = tokio::join!(evict(&lab, &pods[0]), evict(&lab, &pods[1]));
    assert_eq!([one, other].iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_share_is_of_what_the_deployment_wants() {
    let lab = TestCluster::new().await;
    lab.create::<PodDisruptionBudget>(budget(json!({"maxUnavailable": "50%"}))).await;
    lab.create::<Deployment>(deployment(3)).await;
    assert_eq!(numbers(&lab).await, [3, 0, 1, 0]);
    lab.patch::<Deployment>("web", json!({"spec": {"template": {"spec": {"nodeName": "here"}}}})).await;
    assert_eq!(lab.names::<Pod>().await.len(), 4, "one more for the rollout, of another ReplicaSet");
    assert_eq!(numbers(&lab).await, [3, 0, 1, 0]);
    lab.patch::<PodDisruptionBudget>("web", json!({"spec": {"maxUnavailable": 1}})).await;
    assert_eq!(numbers(&lab).await, [3, 0, 2, 0]);
}
