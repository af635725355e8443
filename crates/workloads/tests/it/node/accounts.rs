//! Tests the identity that a Pod presents to the server: its account's token, where clients look for it, with exactly
//! the account's permissions.

use homeostat_workloads::node::NodeOptions;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use super::test_cluster::{TestCluster, is_root};

/// Runs kubectl without cluster flags: an allowed request, a forbidden one, and its identity. Then prints the token's
/// mode and owner.
const SCRIPT: &str = "kubectl get configmap greeting -o jsonpath='{.data.text}'; echo; \
    kubectl get secrets 2>&1 | grep -o 'User .* cannot list resource .secrets.'; \
    stat -Lc '%a %u' ${HOMEOSTAT_SERVICE_ACCOUNT:-/var/run/secrets/kubernetes.io/serviceaccount}/token | sed \"s/ $(id -u)/ own/\"; \
    echo $KUBERNETES_SERVICE_HOST";

fn has_kubectl() -> bool {
    homeostat::testing::has_tool("kubectl", "https://kubernetes.io/docs/tasks/tools")
}

/// Creates an account that may read ConfigMaps, and a ConfigMap.
async fn allow(lab: &TestCluster) {
    lab.create::<ServiceAccount>(json!({"metadata": {"name": "robot"}})).await;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    lab.create::<Role>(json!({"metadata": {"name": "reader"}, "rules": [rule]})).await;
    lab.create::<RoleBinding>(json!({"metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]}))
        .await;
    lab.create::<ConfigMap>(json!({"metadata": {"name": "greeting"}, "data": {"text": "hello"}})).await;
}

fn spec(script: &str, more: &Value) -> Value {
    let container = json!({"name": "main", "image": "none", "command": ["sh", "-c", script]});
    let mut spec =
        json!({"restartPolicy": "Never", "serviceAccountName": "robot", "containers": [container]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

async fn talks_as_its_account(change: impl FnOnce(NodeOptions) -> NodeOptions) {
    if !has_kubectl() {
        return;
    }
    let lab = TestCluster::served(change).await;
    allow(&lab).await;
    let forbidden = "User \"system:serviceaccount:default:robot\" cannot list resource \"secrets\"";
    let expected = format!("hello\n{forbidden}\n600 own\n127.0.0.1\n");
    assert_eq!(lab.said_by("talks", spec(SCRIPT, &json!({}))).await, expected);
}

#[tokio::test]
async fn a_pod_talks_to_the_server_as_its_account() {
    talks_as_its_account(|options| options).await;
}

#[tokio::test]
async fn without_namespaces_a_variable_leads_to_the_account() {
    talks_as_its_account(NodeOptions::without_namespaces).await;
}

/// A container with another user reads the token, and only that user can.
#[tokio::test]
async fn the_token_is_the_pods_own() {
    if !is_root("only root runs Pods as somebody else") || !has_kubectl() {
        return;
    }
    let lab = TestCluster::served(|options| options).await;
    allow(&lab).await;
    let context = json!({"securityContext": {"runAsUser": 65534}});
    let folder = std::path::Path::new("/var/run/secrets");
    let was_there = folder.exists();
    let told = lab.said_by("other", spec(SCRIPT, &context)).await;
    assert_eq!(folder.exists(), was_there, "the host's folders stay as they are");
    assert!(told.starts_with("hello\n") && told.contains("\n600 own\n"), "{told}");
}

#[tokio::test]
async fn who_refuses_the_account_gets_none() {
    let lab = TestCluster::served(|options| options).await;
    lab.create::<ServiceAccount>(json!({"metadata": {"name": "shy"}, "automountServiceAccountToken": false}))
        .await;
    let script = "ls /var/run/secrets/kubernetes.io/serviceaccount 2>/dev/null; echo $KUBERNETES_SERVICE_PORT | tr 0-9 x";
    for (name, account, own, expected) in [
        ("by-pod", "default", json!(false), ""),
        ("by-account", "shy", json!(null), ""),
        ("by-pod-again", "shy", json!(true), "ca.crt\nnamespace\ntoken\n"),
    ] {
        let more = json!({"serviceAccountName": account, "automountServiceAccountToken": own});
        let told = lab.said_by(name, spec(script, &more)).await;
        assert_eq!(told.trim_end_matches(['x', '\n']).to_owned(), expected.trim_end(), "{name}");
        assert!(told.ends_with("x\n"), "where the server is, everybody may know: {told}");
    }
}

/// A token for another audience is a volume like any other. A Pod whose account does not exist is refused.
#[tokio::test]
async fn projected_tokens_are_volumes() {
    let lab = TestCluster::served(|options| options).await;
    let source =
        json!({"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}});
    let script = "cut -d. -f2 $HOMEOSTAT_VOLUMES/own/vault | tr '_-' '/+' | { base64 -d 2>/dev/null; true; }";
    let mut wanted = spec(script, &json!({"volumes": [{"name": "own", "projected": {"sources": [source]}}]}));
    wanted["containers"][0]["volumeMounts"] = json!([{"name": "own", "mountPath": "/homeostat-test"}]);
    let early = serde_json::from_value(json!({"metadata": {"name": "early"}, "spec": wanted})).unwrap();
    let pods = Api::<Pod>::default_namespaced(lab.client.clone());
    let refused = pods.create(&PostParams::default(), &early).await.unwrap_err().to_string();
    assert!(refused.contains("serviceaccount \"robot\" not found"), "{refused}");
    lab.create::<ServiceAccount>(json!({"metadata": {"name": "robot"}})).await;
    lab.pod("early", wanted).await;
    let pod = lab.until_phase("early", "Succeeded").await;
    let claims = lab.said(&pod, |_| ()).await.unwrap();
    assert!(
        claims.contains("\"aud\":[\"vault\"]") && claims.contains("\"pod\":{\"name\":\"early\""),
        "{claims}"
    );
}
