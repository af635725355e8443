//! Tests custom kinds without namespaces, and the replica numbers of those that scale, as recorded from kube-apiserver
//! v1.36.4.

use serde_json::{Value, json};

use crate::test_server::{APPLY, MERGE, TestServer};

const GADGETS: &str = "/apis/cluster.test/v1/gadgets";

async fn start() -> TestServer {
    let plane = TestServer::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector"});
    let definition = json!({"metadata": {"name": "gadgets.cluster.test"}, "spec": {"group": "cluster.test",
        "names": {"kind": "Gadget", "plural": "gadgets"}, "scope": "Cluster", "versions": [{"name": "v1",
        "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    plane.post(definitions, definition).await.expect(201);
    plane
}

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "cluster.test/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"replicas": 1}})
}

#[tokio::test]
async fn a_namespace_in_the_path_of_a_cluster_kind_is_not_found() {
    let plane = start().await;
    plane.post(GADGETS, gadget("a")).await.expect(201);
    let misplaced = "/apis/cluster.test/v1/namespaces/default/gadgets";
    for path in
        [misplaced, "/apis/cluster.test/v1/watch/namespaces/default/gadgets", "/apis/cluster.test/v1/none"]
    {
        assert_eq!(plane.get(path).await.expect(404), "404 page not found\n", "{path}");
    }
    for path in [format!("{misplaced}/a"), format!("{misplaced}/a/status")] {
        assert_eq!(plane.get(&path).await.expect(404), "404 page not found\n");
        assert_eq!(plane.put(&path, gadget("a")).await.expect(404), "404 page not found\n");
        assert_eq!(plane.patch(&path, MERGE, json!({})).await.expect(404), "404 page not found\n");
    }
    assert_eq!(plane.post(misplaced, gadget("b")).await.expect(404), "404 page not found\n");
    assert_eq!(plane.delete(misplaced).await.expect(404), "404 page not found\n");
    for selector in ["metadata.namespace%3Dx", "metadata.namespace%3D"] {
        plane.get(&format!("{GADGETS}?fieldSelector={selector}")).await.expect(400);
    }
}

#[tokio::test]
async fn a_namespace_in_the_body_is_dropped() {
    let plane = start().await;
    let mut placed = gadget("a");
    placed["metadata"]["namespace"] = json!("default");
    let made = plane.post(GADGETS, placed.clone()).await.expect(201);
    assert_eq!(made["metadata"].get("namespace"), None);
    placed["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    placed["spec"]["replicas"] = json!(2);
    let changed = plane.put(&format!("{GADGETS}/a"), placed).await.expect(200);
    assert_eq!(changed["metadata"].get("namespace"), None);
    let applied = json!({"apiVersion": "cluster.test/v1", "kind": "Gadget",
        "metadata": {"name": "b", "namespace": "nowhere"}});
    let path = format!("{GADGETS}/b?fieldManager=m");
    let applied = plane.patch(&path, APPLY, applied).await.expect(201);
    assert_eq!(applied["metadata"].get("namespace"), None);
    // Built-in kinds do the same.
    let node = json!({"metadata": {"name": "n", "namespace": "default"}});
    assert_eq!(plane.post("/api/v1/nodes", node).await.expect(201)["metadata"].get("namespace"), None);
}

#[tokio::test]
async fn misplaced_and_missing_names_are_handled() {
    let plane = start().await;
    // The name in the path of a create is ignored.
    let made = plane.post(&format!("{GADGETS}/other"), gadget("a")).await.expect(201);
    assert_eq!(made["metadata"]["name"], "a");
    let again = plane.post(&format!("{GADGETS}/a"), gadget("a")).await.expect(409);
    assert_eq!(again["reason"], "AlreadyExists");
    for answer in [plane.put(GADGETS, gadget("a")).await, plane.patch(GADGETS, MERGE, json!({})).await] {
        assert_eq!(answer.expect(400)["message"], "name must be provided");
    }
    plane.put("/api/v1/nodes", json!({"metadata": {"name": "n"}})).await.expect(405);
}

#[tokio::test]
async fn negative_numbers_are_refused_at_their_field() {
    let plane = start().await;
    plane.post(GADGETS, gadget("a")).await.expect(201);
    let object = format!("{GADGETS}/a");
    let scale = format!("{GADGETS}/a/scale");
    let told = |refused: Value| {
        let details = &refused["details"];
        assert_eq!(
            (&details["kind"], &details["group"]),
            (&json!("Gadget"), &json!("cluster.test")),
            "{refused}"
        );
        let cause = &details["causes"][0];
        format!("{} {}", cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap())
    };
    let negative = ".spec.replicas Invalid value: -1: should be a non-negative integer";
    let spec = json!({"spec": {"replicas": -1}});
    let whole = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "x"},
        "spec": {"replicas": -1}});
    assert_eq!(told(plane.put(&scale, whole).await.expect(422)), negative);
    assert_eq!(told(plane.patch(&scale, MERGE, spec.clone()).await.expect(422)), negative);
    assert_eq!(told(plane.patch(&object, MERGE, spec).await.expect(422)), negative);
    let mut born = gadget("b");
    born["spec"]["replicas"] = json!(-1);
    assert_eq!(told(plane.post(GADGETS, born).await.expect(422)), negative);
    let status = json!({"status": {"replicas": 2_147_483_648_i64}});
    let refused = plane.patch(&format!("{object}/status"), MERGE, status).await.expect(422);
    let large = "Invalid value: 2147483648: should be less than or equal to 2147483647";
    assert_eq!(told(refused), format!(".status.replicas {large}"));
    plane.patch(&scale, MERGE, json!({"spec": {"replicas": 3}})).await.expect(200);
    let built_in = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template":
        {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    plane.post(deployments, built_in).await.expect(201);
    let path = format!("{deployments}/d/scale");
    let refused = plane.patch(&path, MERGE, json!({"spec": {"replicas": -1}})).await.expect(422);
    assert_eq!(
        (&refused["details"]["kind"], &refused["details"]["group"]),
        (&json!("Scale"), &json!("autoscaling"))
    );
}

#[tokio::test]
async fn the_result_of_a_patch_must_be_a_scale() {
    let plane = start().await;
    plane.post(GADGETS, gadget("a")).await.expect(201);
    let scale = format!("{GADGETS}/a/scale");
    for patch in [
        json!({"spec": {"replicas": "x"}}),
        json!({"apiVersion": "autoscaling/v2", "spec": {"replicas": 9}}),
        json!({"kind": "X", "spec": {"replicas": 9}}),
    ] {
        let refused = plane.patch(&scale, MERGE, patch).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], "patch");
    }
    plane.patch(&scale, MERGE, json!({"metadata": {"name": "b"}})).await.expect(400);
    let unknown = json!({"spec": {"none": 1}});
    let warned = plane.patch(&scale, MERGE, unknown.clone()).await;
    assert_eq!(warned.headers["warning"], "299 - \"unknown field \\\"spec.none\\\"\"");
    plane.patch(&format!("{scale}?fieldValidation=Strict"), MERGE, unknown).await.expect(422);
    assert_eq!(plane.get(&scale).await.expect(200)["spec"]["replicas"], 1);
}
