//! Tests Endpoints written by users, and the EndpointSlices that mirror them.

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::test_cluster::TestCluster;

fn endpoints(ip: &str) -> Value {
    json!({"metadata": {"name": "db", "labels": {"app": "db"}},
           "subsets": [{"ports": [{"port": 80}], "addresses": [{"ip": ip}]}]})
}

fn service() -> Value {
    json!({"metadata": {"name": "db"}, "spec": {"ports": [{"port": 80}]}})
}

/// Returns each slice of this Service as `address:port`.
async fn slices(lab: &TestCluster) -> Vec<String> {
    let all = lab.list::<EndpointSlice>().await.into_iter().map(|slice| json!(slice));
    let of_service = all.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "db");
    let described = of_service.map(|slice| {
        let manager = &slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"];
        assert_eq!(manager, "endpointslicemirroring-controller.k8s.io");
        let address = slice["endpoints"][0]["addresses"][0].as_str().unwrap_or("-").to_owned();
        format!("{address}:{}", slice["ports"][0]["port"])
    });
    described.collect()
}

#[tokio::test(start_paused = true)]
async fn slices_follow_the_endpoints() {
    let lab = TestCluster::without_kubelet().await;
    lab.create::<Service>(service()).await;
    lab.create::<Endpoints>(endpoints("10.1.2.3")).await;
    assert_eq!(slices(&lab).await, ["10.1.2.3:80"]);
    let name = lab.names::<EndpointSlice>().await.into_iter().find(|name| name.starts_with("db-")).unwrap();
    lab.patch::<Endpoints>("db", json!({"subsets": endpoints("10.2.3.4")["subsets"]})).await;
    assert_eq!(slices(&lab).await, ["10.2.3.4:80"]);
    assert!(lab.names::<EndpointSlice>().await.contains(&name), "the same slice");
    lab.delete::<EndpointSlice>(&name, &DeleteParams::default()).await;
    assert_eq!(slices(&lab).await, ["10.2.3.4:80"], "it is made again");
    lab.delete::<Endpoints>("db", &DeleteParams::default()).await;
    lab.pass(1).await;
    assert!(slices(&lab).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_services_without_a_selector_are_mirrored() {
    let lab = TestCluster::without_kubelet().await;
    lab.create::<Endpoints>(endpoints("10.1.2.3")).await;
    assert!(slices(&lab).await.is_empty(), "no Service");
    lab.create::<Service>(service()).await;
    assert_eq!(slices(&lab).await, ["10.1.2.3:80"]);
    let skip =
        |value: Value| json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": value}}});
    lab.patch::<Endpoints>("db", skip(json!("true"))).await;
    assert!(slices(&lab).await.is_empty(), "skipped");
    lab.patch::<Endpoints>("db", skip(Value::Null)).await;
    assert_eq!(slices(&lab).await, ["10.1.2.3:80"]);
    lab.delete::<Service>("db", &DeleteParams::default()).await;
    assert!(slices(&lab).await.is_empty(), "the Service is gone");
}
