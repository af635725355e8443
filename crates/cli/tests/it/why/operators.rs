//! Faults of operators: a missing right, an object with another owner, an invalid child, a hot loop, an object that
//! cannot be decoded, a finalizer that is never removed, a cloud that fails or does not answer, a lapsed lease.

use std::path::Path;

use super::faulty_operator::{Faulty, USER};
use super::{names, why};
use crate::pods::{kubectl, told};
use crate::server::{Server, eventually};

/// Everything but Secrets.
pub(crate) const RIGHTS: &str = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "faulty"}, "rules": [
    {"apiGroups": ["why.homeostat.dev", "apiextensions.k8s.io", "coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io"],
     "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["configmaps", "events"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}]}"#;

pub(crate) async fn create(server: &Server, folder: &Path, text: &str) {
    let file = folder.join("object.json");
    std::fs::write(&file, text).unwrap();
    told(server, &["create", "-f", file.to_str().unwrap()]).await;
}

pub(crate) fn object(kind: &str, name: &str, rest: &str) -> String {
    format!(
        r#"{{"apiVersion": "why.homeostat.dev/v1", "kind": "{kind}", "metadata": {{"name": "{name}"}}, "spec": {{"fault": "{name}"{rest}}}}}"#
    )
}

/// Starts the operator with its rights, and waits until its kinds are served.
pub(crate) async fn start(server: &Server, folder: &Path) -> Faulty {
    create(server, folder, RIGHTS).await;
    told(server, &["create", "clusterrolebinding", "faulty", "--clusterrole=faulty", "--user", USER]).await;
    let faulty = Faulty::start(&server.kubeconfig).await;
    eventually("its kinds are served", || async { kubectl(server, &["get", "tasks,cloudlets"]).await.ok() })
        .await;
    faulty
}

#[tokio::test]
async fn why_names_what_is_wrong_with_operators() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let config = server.kubeconfig.as_path();
    let _faulty = start(&server, folder.path()).await;
    told(&server, &["create", "configmap", "taken", "--from-literal=a=theirs"]).await;
    for name in ["right", "owner", "child", "loop", "cleanup"] {
        create(&server, folder.path(), &object("Task", name, "")).await;
    }
    create(&server, folder.path(), &object("Task", "undecodable", r#", "size": 13"#)).await;
    for name in ["broken", "slow"] {
        create(&server, folder.path(), &object("Cloudlet", name, "")).await;
    }

    create(&server, folder.path(), &object("Task", "fine", "")).await;
    names(config, &["task", "fine"], &["Task fine is healthy: the controller task looked at it"]).await;
    names(config, &["task", "right"], &["Task right fails", "forbidden", "secrets"]).await;
    names(
        config,
        &["task", "owner"],
        &["Task owner fails", "configmaps/default/taken exists and is not ours"],
    )
    .await;
    let text =
        names(config, &["task", "child"], &["Task child fails", "not a key!", "attempt", "It tries again"])
            .await;
    assert!(text.contains("What happened:") && text.contains("kubectl (user "), "{text}");
    names(
        config,
        &["task", "undecodable"],
        &["cannot be decoded by faulty.homeostat.dev", "13 is an unlucky size"],
    )
    .await;
    names(
        config,
        &["task", "loop"],
        &["is in a hot loop", "the controller task wrote ConfigMap loop", "data.time"],
    )
    .await;
    names(config, &["cloudlet", "broken"], &["Cloudlet broken", "the cloud is on fire"]).await;
    names(config, &["cloudlet", "slow"], &["Cloudlet slow", "no answer within 200ms"]).await;

    told(&server, &["delete", "task", "cleanup", "--wait=false"]).await;
    names(
        config,
        &["task", "cleanup"],
        &["waits for the finalizer faulty.homeostat.dev/", "the backup failed"],
    )
    .await;
    let held = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["nobody.example.dev/keep"]}}"#;
    create(&server, folder.path(), held).await;
    told(&server, &["delete", "configmap", "held", "--wait=false"]).await;
    names(
        config,
        &["configmap", "held"],
        &[
            "waits for the finalizer nobody.example.dev/keep",
            "nobody.example.dev should remove",
            "no operator of that name",
        ],
    )
    .await;
    server.stop().await;
}

#[tokio::test]
async fn why_names_a_lapsed_lease() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::ephemeral(folder.path()).await;
    let definition = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "orphans.absent.homeostat.dev"}, "spec": {
            "group": "absent.homeostat.dev", "scope": "Namespaced", "names": {"plural": "orphans", "kind": "Orphan"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;
    let file = folder.path().join("definition.json");
    std::fs::write(&file, definition).unwrap();
    let file = file.to_str().unwrap();
    told(&server, &["apply", "--server-side", "--field-manager=absent.homeostat.dev", "-f", file]).await;
    let lease = r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "absent.homeostat.dev",
        "labels": {"homeostat.dev/operator": "absent.homeostat.dev"}}, "spec": {"holderIdentity": "replica-1",
        "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}}"#;
    create(&server, folder.path(), lease).await;
    let orphan =
        r#"{"apiVersion": "absent.homeostat.dev/v1", "kind": "Orphan", "metadata": {"name": "alone"}}"#;
    create(&server, folder.path(), orphan).await;
    let words = [
        "Orphan alone has nobody who acts on it",
        "the operator absent.homeostat.dev",
        "replica-1",
        "lapsed",
    ];
    names(&server.kubeconfig, &["orphan", "alone"], &words).await;
    told(&server, &["delete", "lease", "absent.homeostat.dev"]).await;
    let text = why(&server.kubeconfig, &["orphan", "alone"]).await;
    assert!(
        text.starts_with("Orphan alone has no known state: nothing here is known to watch Orphan objects"),
        "{text}"
    );
    server.stop().await;
}
