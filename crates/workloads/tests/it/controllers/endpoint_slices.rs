//! Tests EndpointSlices: Services point to the Pods that exist and are ready.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, template};

/// Returns the endpoints in each slice of the Service as `ready/all`.
async fn endpoints(lab: &TestCluster) -> Vec<String> {
    let slices = json!(lab.list::<EndpointSlice>().await);
    let of_web = slices
        .as_array()
        .unwrap()
        .iter()
        .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
    let told = of_web.map(|slice| {
        let all = slice["endpoints"].as_array().cloned().unwrap_or_default();
        let ready = all.iter().filter(|endpoint| endpoint["conditions"]["ready"] == true).count();
        format!("{ready}/{}", all.len())
    });
    told.collect()
}

fn service() -> Value {
    json!({"metadata": {"name": "web", "labels": {"tier": "front"}}, "spec": {
        "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}})
}

fn deployment(replicas: i32) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "ready")}})
}

#[tokio::test(start_paused = true)]
async fn a_service_leads_to_its_pods() {
    let lab = TestCluster::new().await;
    lab.create::<Service>(service()).await;
    assert_eq!(endpoints(&lab).await, ["0/0"]);
    lab.create::<Deployment>(deployment(3)).await;
    assert_eq!(endpoints(&lab).await, ["3/3"]);
    let slices = lab.list::<EndpointSlice>().await;
    let slice =
        slices.iter().find(|slice| slice.metadata.name.as_deref().unwrap().starts_with("web-")).unwrap();
    let labels = slice.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
    assert_eq!((labels["tier"].as_str(), slice.address_type.as_str()), ("front", "IPv4"));
    assert_eq!(slice.ports.as_ref().unwrap()[0].port, Some(8080));
    let legacy = lab.get::<Endpoints>("web").await;
    let subset = &legacy["subsets"][0];
    assert_eq!(
        (subset["addresses"].as_array().unwrap().len(), &subset["ports"][0]["port"]),
        (3, &json!(8080))
    );
    assert_eq!(subset["addresses"][0]["targetRef"]["kind"], "Pod");
    let endpoint = &slice.endpoints.as_ref().unwrap()[0];
    assert_eq!((endpoint.node_name.as_deref(), endpoint.addresses.len()), (Some("here"), 1));
    let pod = lab.names::<Pod>().await.remove(0);
    lab.say(&pod, json!({"conditions": [{"type": "Ready", "status": "False"}]})).await;
    assert_eq!(endpoints(&lab).await, ["2/3"]);
    let subset = lab.get::<Endpoints>("web").await["subsets"][0].clone();
    let count = |field: &str| subset[field].as_array().unwrap().len();
    assert_eq!((count("addresses"), count("notReadyAddresses")), (2, 1));
    lab.patch::<Deployment>("web", json!({"spec": {"replicas": 1}})).await;
    assert_eq!(endpoints(&lab).await, ["1/1"]);
    lab.delete::<Service>("web", &DeleteParams::default()).await;
    lab.pass(5).await;
    assert!(endpoints(&lab).await.is_empty());
    assert!(!lab.names::<Endpoints>().await.contains(&"web".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_service_without_a_selector_is_left_alone() {
    let lab = TestCluster::new().await;
    let before = lab.names::<EndpointSlice>().await;
    let mut web = service();
    web["spec"]["selector"] = Value::Null;
    lab.create::<Service>(web).await;
    assert_eq!(lab.names::<EndpointSlice>().await, before);
}
