//! Tests Deployments: rollouts, their limits, their conditions, and what `kubectl rollout` needs.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, condition, template};

const REVISION: &str = "deployment.kubernetes.io/revision";

fn deployment(replicas: i32, image: &str) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", image)}})
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": template("web", image)}})
}

/// Returns the numbers of replicas, updated, ready, available and unavailable Pods.
fn counts(deployment: &Value) -> [i64; 5] {
    ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"]
        .map(|field| deployment["status"][field].as_i64().unwrap_or(0))
}

/// Returns each ReplicaSet as `image desired/actual revision`, ordered by revision.
async fn sets(lab: &TestCluster) -> Vec<String> {
    let mut sets: Vec<(String, String)> = lab
        .list::<ReplicaSet>()
        .await
        .into_iter()
        .map(|set| {
            let set = json!(set);
            let revision = set["metadata"]["annotations"][REVISION].as_str().unwrap_or("-").to_owned();
            let image = &set["spec"]["template"]["spec"]["containers"][0]["image"];
            let (desired, actual) = (&set["spec"]["replicas"], &set["status"]["replicas"]);
            let text = format!("{} {desired}/{actual}", image.as_str().unwrap());
            (revision, text)
        })
        .collect();
    sets.sort();
    sets.into_iter().map(|(revision, text)| format!("{text} r{revision}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_first_rollout() {
    let lab = TestCluster::new().await;
    lab.create::<Deployment>(deployment(3, "ready")).await;
    let web = lab.get::<Deployment>("web").await;
    assert_eq!(counts(&web), [3, 3, 3, 3, 0]);
    assert_eq!(condition(&web, "Available"), "True MinimumReplicasAvailable");
    assert_eq!(condition(&web, "Progressing"), "True NewReplicaSetAvailable");
    assert_eq!(web["metadata"]["annotations"][REVISION], "1");
    assert_eq!(
        (&web["metadata"]["generation"], &web["status"]["observedGeneration"]),
        (&json!(1), &json!(1))
    );
    let set = &lab.list::<ReplicaSet>().await[0];
    let hash = set.metadata.labels.as_ref().unwrap()["pod-template-hash"].clone();
    let name = format!("web-{hash}");
    assert_eq!(set.metadata.name.as_ref(), Some(&name));
    assert_eq!(lab.list::<Pod>().await[0].metadata.labels.as_ref().unwrap()["pod-template-hash"], hash);
    assert_eq!(
        lab.events("web").await,
        [format!("ScalingReplicaSet: Scaled up replica set {name} from 0 to 3")]
    );
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_and_back() {
    let lab = TestCluster::new().await;
    lab.create::<Deployment>(deployment(3, "ready")).await;
    lab.patch::<Deployment>("web", image("ready2")).await;
    assert_eq!(sets(&lab).await, ["ready 0/0 r1", "ready2 3/3 r2"]);
    let web = lab.get::<Deployment>("web").await;
    assert_eq!(counts(&web), [3, 3, 3, 3, 0]);
    assert_eq!(web["metadata"]["annotations"][REVISION], "2");
    // This is what `kubectl rollout undo` does.
    lab.patch::<Deployment>("web", image("ready")).await;
    assert_eq!(sets(&lab).await, ["ready2 0/0 r2", "ready 3/3 r3"]);
    let old = json!(lab.list::<ReplicaSet>().await);
    let history =
        old.as_array().unwrap().iter().find_map(|set| {
            set["metadata"]["annotations"]["deployment.kubernetes.io/revision-history"].as_str()
        });
    assert_eq!(history, Some("1"));
    // This is what `kubectl rollout restart` does.
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}});
    lab.patch::<Deployment>("web", restart).await;
    assert_eq!(sets(&lab).await, ["ready2 0/0 r2", "ready 0/0 r3", "ready 3/3 r4"]);
    assert_eq!(lab.pods().await, ["ready Running"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_update_stops_at_the_limits() {
    let lab = TestCluster::new().await;
    let mut web = deployment(10, "ready");
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    web["spec"]["progressDeadlineSeconds"] = json!(60);
    lab.create::<Deployment>(web).await;
    lab.patch::<Deployment>("web", image("slow")).await;
    assert_eq!(sets(&lab).await, ["ready 8/8 r1", "slow 5/5 r2"]);
    let web = lab.get::<Deployment>("web").await;
    assert_eq!(counts(&web), [13, 5, 8, 8, 5]);
    assert_eq!(condition(&web, "Progressing"), "True ReplicaSetUpdated");
    assert_eq!(condition(&web, "Available"), "True MinimumReplicasAvailable");
    lab.pass(62).await;
    let web = lab.get::<Deployment>("web").await;
    assert_eq!(condition(&web, "Progressing"), "False ProgressDeadlineExceeded");
    lab.patch::<Deployment>("web", image("ready")).await;
    assert_eq!(sets(&lab).await, ["slow 0/0 r2", "ready 10/10 r3"]);
    assert_eq!(condition(&lab.get::<Deployment>("web").await, "Progressing"), "True NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn recreate_lets_the_old_ones_go_first() {
    let lab = TestCluster::new().await;
    let mut web = deployment(2, "ready");
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    lab.create::<Deployment>(web).await;
    assert_eq!(sets(&lab).await, ["ready 2/2 r1"]);
    lab.patch::<Deployment>("web", image("ready2")).await;
    lab.rest().await;
    assert_eq!(sets(&lab).await, ["ready 0/0 r1", "ready2 2/2 r2"]);
    assert_eq!(lab.pods().await, ["ready2 Running"; 2]);
}

#[tokio::test(start_paused = true)]
async fn scaling_at_rest_and_in_a_rollout() {
    let lab = TestCluster::new().await;
    let mut web = deployment(10, "ready");
    web["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    lab.create::<Deployment>(web).await;
    lab.patch::<Deployment>("web", json!({"spec": {"replicas": 5}})).await;
    assert_eq!(sets(&lab).await, ["ready 5/5 r1"]);
    lab.patch::<Deployment>("web", json!({"spec": {"replicas": 10}})).await;
    lab.patch::<Deployment>("web", image("slow")).await;
    assert_eq!(sets(&lab).await, ["ready 8/8 r1", "slow 5/5 r2"]);
    lab.patch::<Deployment>("web", json!({"spec": {"replicas": 15}})).await;
    let total: Vec<String> = sets(&lab).await;
    assert_eq!(total, ["ready 11/11 r1", "slow 7/7 r2"], "in proportion");
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_the_rollout_but_not_the_scale() {
    let lab = TestCluster::new().await;
    lab.create::<Deployment>(deployment(2, "ready")).await;
    lab.patch::<Deployment>("web", json!({"spec": {"paused": true}})).await;
    assert_eq!(condition(&lab.get::<Deployment>("web").await, "Progressing"), "Unknown DeploymentPaused");
    lab.patch::<Deployment>("web", image("ready2")).await;
    lab.patch::<Deployment>("web", json!({"spec": {"replicas": 3}})).await;
    assert_eq!(sets(&lab).await, ["ready 3/3 r1"]);
    lab.patch::<Deployment>("web", json!({"spec": {"paused": false}})).await;
    assert_eq!(sets(&lab).await, ["ready 0/0 r1", "ready2 3/3 r2"]);
    assert_eq!(condition(&lab.get::<Deployment>("web").await, "Progressing"), "True NewReplicaSetAvailable");
}

#[tokio::test(start_paused = true)]
async fn history_is_limited() {
    let lab = TestCluster::new().await;
    let mut web = deployment(1, "ready");
    web["spec"]["revisionHistoryLimit"] = json!(2);
    lab.create::<Deployment>(web).await;
    for number in 0..5 {
        let note = json!({"spec": {"template": {"metadata": {"annotations": {"n": number.to_string()}}}}});
        lab.patch::<Deployment>("web", note).await;
        lab.pass(1).await;
    }
    assert_eq!(sets(&lab).await, ["ready 0/0 r4", "ready 0/0 r5", "ready 1/1 r6"]);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_takes_everything_with_it() {
    let lab = TestCluster::new().await;
    lab.create::<Deployment>(deployment(2, "ready")).await;
    lab.delete::<Deployment>("web", &DeleteParams::default()).await;
    lab.pass(5).await;
    assert!(lab.names::<ReplicaSet>().await.is_empty() && lab.pods().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let lab = TestCluster::new().await;
    lab.create::<Deployment>(deployment(2, "ready")).await;
    let before = lab.get::<Deployment>("web").await["metadata"]["resourceVersion"].clone();
    lab.pass(3600).await;
    assert_eq!(lab.get::<Deployment>("web").await["metadata"]["resourceVersion"], before);
}
