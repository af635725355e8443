//! Every page in a real browser: problems come first, with their cause; the keyboard suffices; axe finds nothing; there
//! are no requests to other machines; no value of a Secret is shown.

use serde_json::{Value, json};

use super::{ConsoleServer, browser_script};
use crate::server::eventually;

const SECRET: &str = "hunter2-plain";

/// Objects that fail for different reasons, and what the first page must show for each.
fn failing_objects() -> Vec<Value> {
    let deployment = |name: &str, container: Value| {
        let labels = json!({"app": name});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
        })
    };
    let container = |command: &[&str]| json!({"name": "app", "image": "web", "command": command});
    let mut reference = container(&["sleep", "3600"]);
    reference["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    vec![
        deployment("web", container(&["sleep", "3600"])),
        deployment("crash", container(&["sh", "-c", "exit 3"])),
        deployment("image", json!({"name": "app", "image": "nowhere"})),
        deployment("reference", reference),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"password": SECRET}}),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lapsed"},
            "spec": {"holderIdentity": "operator-1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
        }),
    ]
}

/// What the first page must show.
const CAUSES: &[&str] = &[
    "of crash CrashLoopBackOff",
    "this node cannot run images",
    "configmap \"settings\" not found",
    "the lease has lapsed: operator-1 does not renew it",
];

async fn create_all(client: &kube::Client) {
    for object in failing_objects() {
        let path = match object["kind"].as_str().unwrap() {
            "Deployment" => "/apis/apps/v1/namespaces/default/deployments",
            "Lease" => "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            _ => "/api/v1/namespaces/default/secrets",
        };
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&object).unwrap()).unwrap();
        client.request::<Value>(request).await.unwrap();
    }
}

/// Waits until every failing Pod reports its failure; returns the name of one that crashes.
async fn crashing_pod(client: &kube::Client) -> String {
    let list = async || {
        let request = http::Request::get("/api/v1/namespaces/default/pods").body(Vec::new()).unwrap();
        client.request::<Value>(request).await.unwrap()["items"].as_array().unwrap().clone()
    };
    let waits_for = |pod: &Value, name: &str, reason: &str| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        pod["metadata"]["name"].as_str().unwrap().starts_with(name) && waiting == reason
    };
    eventually("all Pods fail as they should", async || {
        let pods = list().await;
        let is_there = |name: &str, reason: &str| pods.iter().any(|pod| waits_for(pod, name, reason));
        let are_all =
            is_there("image", "ErrImageNeverPull") && is_there("reference", "CreateContainerConfigError");
        let crashing = pods.iter().find(|pod| waits_for(pod, "crash", "CrashLoopBackOff"))?;
        are_all.then(|| crashing["metadata"]["name"].as_str().unwrap().to_owned())
    })
    .await
}

#[tokio::test]
async fn every_page_is_right_in_a_browser() {
    let Some(mut script) = browser_script("check.mjs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let console = ConsoleServer::start(folder.path(), &["--node"]).await;
    let client = console.server.client().await;
    create_all(&client).await;
    let pod = crashing_pod(&client).await;
    let pages = [format!("#/object/pods/default/{pod}"), "#/object/secrets/default/password".to_owned()];
    let output = script.args([&console.url, SECRET]).args(&pages).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for list in ["violations", "complaints", "strangers", "leaks", "narrow"] {
        assert_eq!(found[list], json!([]), "{list}");
    }
    assert_eq!(found["tokenInAddress"], false);
    let problems = found["problems"].as_array().unwrap();
    for cause in CAUSES {
        let is_named = problems.iter().any(|problem| problem.as_str().unwrap().contains(cause));
        assert!(is_named, "{cause:?} is not in {problems:#?}");
    }
    assert!(!problems.iter().any(|problem| problem.as_str().unwrap().contains("Pod web")), "{problems:#?}");
    assert!(found["keyboard"]["rewound"].as_str().unwrap().starts_with("Revision"), "{found}");
}
