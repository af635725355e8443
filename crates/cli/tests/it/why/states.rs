//! Objects about which little is known: `why` reports healthy only on evidence, and otherwise what is known.

use super::operators::create;
use super::{names, why};
use crate::pods::{kubectl, told};
use crate::server::{Server, eventually};

const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.absent.example.dev"}, "spec": {
        "group": "absent.example.dev", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

const CLAIM: &str = r#"{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
    "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}"#;

const AUTOSCALER: &str = r#"{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "scaler"},
    "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gone"}}}"#;

const HELD: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "going",
    "finalizers": ["nobody.example.dev/keep"]}}"#;

#[tokio::test]
async fn why_claims_no_health_that_it_does_not_know() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let config = server.kubeconfig.as_path();
    create(&server, folder.path(), DEFINITION).await;
    create(
        &server,
        folder.path(),
        r#"{"apiVersion": "absent.example.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}}"#,
    )
    .await;
    names(config, &["gadget", "g"], &["Gadget g has no known state", "no operator announced itself"]).await;
    names(config, &["crd", "gadgets.absent.example.dev"], &["is healthy", "Established"]).await;

    create(&server, folder.path(), CLAIM).await;
    names(config, &["pvc", "data"], &["is Pending", "StorageClass fast does not exist"]).await;

    told(&server, &["create", "namespace", "going"]).await;
    names(config, &["ns", "going"], &["is healthy: its phase is Active"]).await;
    create(&server, folder.path(), HELD).await;
    told(&server, &["delete", "namespace", "going", "--wait=false"]).await;
    names(config, &["ns", "going"], &["is being deleted", "is not empty", "nobody.example.dev/keep"]).await;

    told(&server, &["create", "deployment", "web", "--image=none"]).await;
    names(config, &["deploy", "web"], &["→ Pod web-", "is not assigned to a node: the cluster has no node"])
        .await;
    told(&server, &["scale", "deployment", "web", "--replicas=0"]).await;
    names(config, &["deploy", "web"], &["runs no Pods: spec.replicas is 0"]).await;
    told(&server, &["rollout", "pause", "deployment", "web"]).await;
    names(config, &["deploy", "web"], &["is paused (spec.paused)"]).await;

    told(&server, &["create", "cronjob", "often", "--image=none", "--schedule=* * * * *"]).await;
    told(&server, &["patch", "cronjob", "often", "-p", r#"{"spec": {"suspend": true}}"#]).await;
    names(config, &["cronjob", "often"], &["is suspended (spec.suspend): it starts no Jobs"]).await;

    told(&server, &["create", "service", "clusterip", "front", "--tcp=80:80"]).await;
    names(
        config,
        &["svc", "front"],
        &["has no endpoints: no Pod has the labels of its selector (app=front)"],
    )
    .await;
    create(&server, folder.path(), AUTOSCALER).await;
    names(config, &["hpa", "scaler"], &["refers to Deployment gone, which does not exist"]).await;
    names(config, &["configmap", "kube-root-ca.crt"], &["no controller acts on a ConfigMap"]).await;
    server.stop().await;
}

/// Deletions by the server itself and of whole collections are reported like those of single objects.
#[tokio::test]
async fn why_tells_who_deleted_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let config = server.kubeconfig.as_path();
    for name in ["one", "owner"] {
        told(&server, &["create", "configmap", name]).await;
    }
    let uid = told(&server, &["get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}"]).await;
    let owned = format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "owned", "ownerReferences": [
        {{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "{uid}"}}]}}}}"#
    );
    create(&server, folder.path(), &owned).await;
    told(&server, &["delete", "configmap", "one"]).await;
    names(config, &["configmap", "one"], &["does not exist: kubectl (user ", "deleted it"]).await;
    told(&server, &["delete", "configmap", "owner"]).await;
    names(config, &["cm", "owned"], &["does not exist: the server's garbage collector deleted it"]).await;

    told(&server, &["create", "namespace", "going"]).await;
    told(&server, &["create", "configmap", "inside", "-n", "going"]).await;
    told(&server, &["delete", "--raw", "/api/v1/namespaces/going/configmaps"]).await;
    names(config, &["cm", "inside", "-n", "going"], &["does not exist: kubectl (user ", "deleted it"]).await;
    server.stop().await;
}

#[tokio::test]
async fn names_are_checked_and_gaps_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::durable(folder.path()).await;
    told(&server, &["create", "configmap", "old"]).await;
    for name in ["web?x=1", "..", "a b", "a%2fb"] {
        let text = why(&server.kubeconfig, &["deploy", name]).await;
        assert!(text.contains("is not the name of an object"), "{name}: {text}");
    }
    let text = why(&server.kubeconfig, &["configmap", "old"]).await;
    assert!(text.contains("Last change: kubectl") && !text.contains("begins with its start"), "{text}");
    server.stop().await;

    // A second later, so that the object is older than the server even though creation times have whole seconds.
    let before = homeostat_core::Clock::system().now().as_second();
    eventually("the clock moves on", || async {
        (homeostat_core::Clock::system().now().as_second() > before + 1).then_some(())
    })
    .await;
    let server = Server::durable(folder.path()).await;
    let text = why(&server.kubeconfig, &["configmap", "old"]).await;
    assert!(text.contains("The server's history of writes begins with its start at "), "{text}");
    let stranger = kubectl(&server, &["create", "serviceaccount", "stranger"]).await;
    assert!(stranger.is_ok(), "{stranger:?}");
    server.stop().await;
}

/// With `--watch`, the explanation is printed again after a change.
#[tokio::test]
async fn watch_prints_again_when_something_changes() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    told(&server, &["create", "configmap", "settings"]).await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_homeostat"));
    command.args(["why", "configmap", "settings", "--watch", "--kubeconfig"]).arg(&server.kubeconfig);
    let mut process = command.stdout(std::process::Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut wait_for = async |words: &str| {
        let found = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains(words) {
                    return;
                }
            }
            panic!("it ended before it printed {words}");
        };
        tokio::time::timeout(crate::server::PATIENCE, found)
            .await
            .unwrap_or_else(|_| panic!("it does not print {words}"));
    };
    wait_for("ConfigMap settings exists").await;
    told(&server, &["patch", "configmap", "settings", "-p", r#"{"data": {"colour": "red"}}"#]).await;
    wait_for("---").await;
    wait_for("data.colour = \"red\"").await;
    server.stop().await;
}

/// `KUBECONFIG` may list files.
#[tokio::test]
async fn kubeconfig_may_be_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let list = std::env::join_paths([folder.path().join("missing"), server.kubeconfig.clone()]).unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_homeostat"));
    let output = command.args(["why", "ns", "default"]).env("KUBECONFIG", list).output().await.unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.starts_with("Namespace default is healthy"), "{text}");
    server.stop().await;
}
