//! Faults of Pods, on a node of this machine: a bad image, a crash loop, a missing reference; and a healthy Deployment.

use super::{names, why};
use crate::pods::{passable_folder, told};
use crate::server::Server;

const MISSING: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "needy"}, "spec": {"containers": [
    {"name": "main", "image": "none", "command": ["sleep", "60"], "envFrom": [{"configMapRef": {"name": "settings"}}]}]}}"#;

#[tokio::test]
async fn why_names_what_is_wrong_with_pods() {
    let folder = passable_folder();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    let config = server.kubeconfig.as_path();

    told(&server, &["create", "deployment", "picture", "--image=no.such/image:1"]).await;
    let text = names(config, &["deploy", "picture"], &["cannot use the image \"no.such/image:1\""]).await;
    assert!(text.starts_with("Deployment picture → ReplicaSet picture-"), "{text}");

    told(&server, &["create", "deployment", "crash", "--image=none", "--", "sh", "-c", "exit 7"]).await;
    let text = names(config, &["deployment", "crash"], &["is in a crash loop", "exit code 7"]).await;
    assert!(text.lines().next().unwrap().contains("→ Pod crash-"), "{text}");

    let file = folder.path().join("needy.json");
    std::fs::write(&file, MISSING).unwrap();
    told(&server, &["create", "-f", file.to_str().unwrap()]).await;
    names(config, &["pod/needy"], &["Pod needy refers to ConfigMap settings, which does not exist"]).await;

    told(&server, &["create", "deployment", "web", "--image=none", "--replicas=1", "--", "sleep", "3600"])
        .await;
    names(config, &["deploy", "web"], &["Deployment web is healthy: 1 of 1 replicas are ready"]).await;
    told(&server, &["scale", "deployment", "web", "--replicas=2"]).await;
    let text =
        names(config, &["deploy", "web"], &["Deployment web is healthy: 2 of 2 replicas are ready"]).await;
    let second = text.lines().nth(1).unwrap();
    assert!(
        second.contains("Last change: kubectl (user ") && second.contains("spec.replicas 1 → 2"),
        "{text}"
    );
    assert!(
        text.contains("controller deployment-controller patched ReplicaSet web-"),
        "the chain continues: {text}"
    );
    assert!(
        why(config, &["deploy", "nothing"]).await.contains("Deployment nothing in default does not exist")
    );
    let json: serde_json::Value =
        serde_json::from_str(&why(config, &["deploy", "web", "--json"]).await).unwrap();
    assert_eq!(
        (json["health"].as_str(), json["subject"].as_str()),
        (Some("healthy"), Some("Deployment web in default"))
    );
    server.stop().await;
}
