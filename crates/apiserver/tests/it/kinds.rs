//! Tests the special endpoints of single kinds: binding and evicting Pods, validating statuses, refusing deletions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn make_pod(plane: &TestServer, name: &str) -> Value {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "a"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    plane.post(PODS, pod).await.expect(201)
}

async fn run_pod(plane: &TestServer, name: &str, ready: &str) {
    make_pod(plane, name).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
    plane.patch(&format!("{PODS}/{name}/status"), MERGE, status).await.expect(200);
}

async fn make_budget(plane: &TestServer, status: Value) {
    let budget = json!({"metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    plane.post(BUDGETS, budget).await.expect(201);
    plane.patch(&format!("{BUDGETS}/b/status"), MERGE, json!({ "status": status })).await.expect(200);
}

#[tokio::test]
async fn autoscalers_are_the_same_in_both_versions() {
    let plane = TestServer::start().await;
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let memory = json!({"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
    let metrics = "autoscaling.alpha.kubernetes.io/metrics";
    let text = r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]"#;
    let object = json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3,
        "metrics": [memory]}});
    plane.post(&path("v2"), object).await.expect(201);
    let v1 = plane.get(&format!("{}/a", path("v1"))).await.expect(200);
    assert_eq!(v1["metadata"]["annotations"], json!({ metrics: text }));
    let wish = json!({"spec": {"targetCPUUtilizationPercentage": 40}});
    let v1 = plane.patch(&format!("{}/a", path("v1")), MERGE, wish).await.expect(200);
    assert_eq!(v1["metadata"]["annotations"], json!({ metrics: text }));
    let v2 = plane.get(&format!("{}/a", path("v2"))).await.expect(200);
    assert_eq!(v2["metadata"].get("annotations"), None);
    assert_eq!(v2["spec"]["metrics"][0], memory);
    assert_eq!(v2["spec"]["metrics"][1]["resource"]["target"]["averageUtilization"], 40);
    assert_eq!(v2["status"], json!({"currentMetrics": null, "desiredReplicas": 0}));
    let bare = json!({"metadata": {"name": "b"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}});
    let v1 = plane.post(&path("v1"), bare).await.expect(201);
    assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 80);
    assert_eq!(v1["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
}

#[tokio::test]
async fn a_dry_run_eviction_changes_nothing() {
    let plane = TestServer::start().await;
    run_pod(&plane, "p", "True").await;
    make_budget(
        &plane,
        json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
        "desiredHealthy": 1, "expectedPods": 2}),
    )
    .await;
    let seen = (
        plane.get(&format!("{PODS}/p")).await.expect(200),
        plane.get(&format!("{BUDGETS}/b")).await.expect(200),
    );
    let path = format!("{PODS}/p/eviction");
    let by_body = json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    let by_query = json!({"metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}});
    plane.post(&format!("{path}?dryRun=All"), json!({"metadata": {"name": "p"}})).await.expect(201);
    plane.post(&format!("{path}?dryRun=All"), by_query).await.expect(201);
    plane.post(&path, by_body).await.expect(201);
    assert_eq!(plane.get(&format!("{PODS}/p")).await.expect(200), seen.0);
    assert_eq!(plane.get(&format!("{BUDGETS}/b")).await.expect(200), seen.1);
    plane.post(&path, json!({"metadata": {"name": "p"}})).await.expect(201);
    let gone = plane.get(&format!("{PODS}/p")).await.expect(200);
    assert!(gone["metadata"]["deletionTimestamp"].is_string(), "{gone}");
    let condition = gone["status"]["conditions"].as_array().unwrap().last().unwrap();
    let said = ["type", "status", "reason", "message"].map(|name| condition[name].as_str().unwrap());
    assert_eq!(said, ["DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting"]);
    let spent = plane.get(&format!("{BUDGETS}/b")).await.expect(200);
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert_eq!(spent["status"]["conditions"][0]["reason"], "InsufficientPods");
}

#[tokio::test]
async fn an_unhealthy_pod_is_evicted_without_its_budget() {
    let plane = TestServer::start().await;
    run_pod(&plane, "well", "True").await;
    run_pod(&plane, "ill", "False").await;
    make_budget(
        &plane,
        json!({"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
        "desiredHealthy": 1, "expectedPods": 2}),
    )
    .await;
    let evict = async |name: &str, options: Value| {
        let body = json!({"metadata": {"name": name}, "deleteOptions": options});
        plane.post(&format!("{PODS}/{name}/eviction"), body).await
    };
    let refused = evict("well", json!({})).await.expect(429);
    let cause = &refused["details"]["causes"][0]["message"];
    assert_eq!(cause, "The disruption budget b needs 1 healthy pods and has 1 currently");
    // Kubernetes interprets any conflict here as a Pod that became ready.
    evict("ill", json!({"preconditions": {"uid": "other"}})).await.expect(429);
    evict("ill", json!({})).await.expect(201);
    make_pod(&plane, "pending").await;
    evict("pending", json!({"preconditions": {"uid": "other"}})).await.expect(409);
    evict("pending", json!({})).await.expect(201);
    evict("pending", json!({"preconditions": {"resourceVersion": "1"}})).await.expect(409);
}

#[tokio::test]
async fn a_binding_checks_the_uid_and_version_of_the_pod() {
    let plane = TestServer::start().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod = plane.post(PODS, pod).await.expect(201);
    let (uid, version) = (&pod["metadata"]["uid"], &pod["metadata"]["resourceVersion"]);
    let node = json!({"kind": "Node", "name": "n"});
    let path = format!("{PODS}/p/binding");
    let rows = [
        (json!({"name": "other"}), node.clone(), 400, "name in URL does not match name in Binding object"),
        (json!({}), node.clone(), 400, "name in URL does not match name in Binding object"),
        (json!({"name": "p"}), json!({}), 500, "target.name: Required value"),
        (
            json!({"name": "p"}),
            json!({"kind": "Pod", "name": "n"}),
            500,
            "target.kind: Unsupported value: \"Pod\"",
        ),
        (
            json!({"name": "p", "uid": "other"}),
            node.clone(),
            409,
            "Operation cannot be fulfilled on pods \"p\": StorageError",
        ),
        (
            json!({"name": "p", "resourceVersion": "1"}),
            node.clone(),
            409,
            "Operation cannot be fulfilled on pods",
        ),
        (
            json!({"name": "p", "namespace": "other"}),
            node.clone(),
            400,
            "the namespace of the provided object",
        ),
    ];
    for (metadata, target, code, start) in rows {
        let refused = plane.post(&path, json!({"metadata": metadata, "target": target})).await.expect(code);
        let said = refused["message"].as_str().unwrap();
        assert!(said.starts_with(start), "{said}");
    }
    assert!(plane.get(&format!("{PODS}/p")).await.expect(200)["spec"].get("nodeName").is_none());
    let stale = json!({"metadata": {"name": "p", "resourceVersion": "1"}, "target": node});
    plane.post("/api/v1/namespaces/default/bindings", stale).await.expect(409);
    let good = json!({"metadata": {"name": "p", "uid": uid, "resourceVersion": version}, "target": node});
    plane.post(&path, good.clone()).await.expect(201);
    let mut again = good;
    again["metadata"] = json!({"name": "p"});
    let refused = plane.post(&path, again).await.expect(409);
    let said = refused["message"].as_str().unwrap();
    assert!(said.ends_with("pod p is already assigned to node \"n\""), "{said}");
}

#[tokio::test]
async fn statuses_and_conditions_are_validated() {
    let plane = TestServer::start().await;
    plane.post("/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await.expect(201);
    let phase = |phase: &str| json!({"status": {"phase": phase}});
    let path = "/api/v1/namespaces/n/status";
    plane.patch(path, MERGE, phase("Active")).await.expect(200);
    let refused = plane.patch(path, MERGE, phase("Odd")).await.expect(422);
    let said = "Namespace \"n\" is invalid: status.Phase: Invalid value: \"Odd\": may only be 'Active' if `deletionTimestamp` is empty";
    assert_eq!(refused["message"], said);

    make_pod(&plane, "p").await;
    let better = json!({"status": {"qosClass": "Guaranteed"}});
    let refused = plane.patch(&format!("{PODS}/p/status"), MERGE, better).await.expect(422);
    let said = "Pod \"p\" is invalid: status.qosClass: Invalid value: \"Guaranteed\": field is immutable";
    assert_eq!(refused["message"], said);

    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let signed = |name: &str, group: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        json!({"metadata": {"name": name}, "spec": {"request": STANDARD.encode(pem),
            "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}})
    };
    let refused = plane.post(requests, signed("master", "system:masters")).await.expect(403);
    let said = "certificatesigningrequests.certificates.k8s.io \"master\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert_eq!(refused["message"], said);
    plane.post(requests, signed("jane", "people")).await.expect(201);
    let decide = async |kind: &str, status: &str| {
        let condition = json!({"type": kind, "status": status, "reason": "r", "message": "m"});
        let body = json!({"status": {"conditions": [condition]}});
        plane.patch(&format!("{requests}/jane/approval"), MERGE, body).await
    };
    decide("Approved", "False").await.expect(422);
    decide("Approved", "True").await.expect(200);
    decide("Denied", "True").await.expect(422);
    let issued = json!({"status": {"certificate": STANDARD.encode("no certificate")}});
    plane.patch(&format!("{requests}/jane/status"), MERGE, issued).await.expect(422);
}

#[tokio::test]
async fn system_priority_classes_cannot_be_deleted() {
    let plane = TestServer::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    for name in ["system-cluster-critical", "system-node-critical"] {
        let refused = plane.delete(&format!("{classes}/{name}")).await.expect(403);
        let said = format!(
            "priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: this is a system priority class and cannot be deleted"
        );
        assert_eq!(refused["message"], said);
    }
    plane.post(classes, json!({"metadata": {"name": "mine"}, "value": 1})).await.expect(201);
    plane.delete(&format!("{classes}/mine")).await.expect(200);
}
