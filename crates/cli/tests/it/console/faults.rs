//! Fourteen faults that happen in practice, and the first page of an operator's own console: it must name the cause of
//! each, and link to the object.

use serde_json::{Value, json};

use super::browser_script;
use crate::pods::{passable_folder, told};
use crate::server::Server;
use crate::why::operators::{create, object, start};

/// A fault, and the words with which the first page names its cause.
const FAULTS: [(&str, &str); 14] = [
    ("a bad image", "this node cannot run images"),
    ("a missing right", "secrets \"right\" is forbidden"),
    ("a conflicting owner", "taken exists and is not ours"),
    ("a failing world", "the cloud is on fire"),
    ("a hot loop", "times a second and never rests"),
    ("a stuck finalizer", "waits for nobody.example.dev/keep to remove the finalizer"),
    ("a lapsed lease", "the lease has lapsed: replica-1 does not renew it"),
    ("an undecodable object", "13 is an unlucky size"),
    ("a missing reference", "configmap \"settings\" not found"),
    ("an invalid child", "not a key!"),
    ("a crash loop", "of crash CrashLoopBackOff"),
    ("a slow outside API", "no answer within 200ms"),
    ("a quota that is used up", "exceeded quota: small"),
    ("a webhook that does not answer", "failed calling webhook \"silent.example.dev\""),
];

/// A quota for the namespace `tight` that allows no Pods.
const QUOTA: &str = r#"{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": "tight"},
    "spec": {"hard": {"pods": "0"}}}"#;

/// Returns a webhook for the Pods of the namespace `hooked`.
fn webhook(address: std::net::SocketAddr) -> String {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "silent"}, "webhooks": [{
            "name": "silent.example.dev", "clientConfig": {"url": format!("https://{address}/check")},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "hooked"}},
            "failurePolicy": "Fail", "timeoutSeconds": 1, "sideEffects": "None",
            "admissionReviewVersions": ["v1"]}]})
    .to_string()
}

/// Creates the faults of admission, each in a namespace of its own. The webhook accepts connections and never answers,
/// as long as the listener exists.
async fn plant_admission_faults(server: &Server, folder: &std::path::Path) -> std::net::TcpListener {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for namespace in ["tight", "hooked"] {
        told(server, &["create", "namespace", namespace]).await;
    }
    create(server, folder, QUOTA).await;
    create(server, folder, &webhook(silent.local_addr().unwrap())).await;
    for (namespace, name) in [("tight", "many"), ("hooked", "waiting")] {
        told(server, &["create", "deployment", name, "--image=none", "-n", namespace]).await;
    }
    silent
}

const OBJECTS: [&str; 3] = [
    r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "needy"}, "spec": {"containers": [
        {"name": "main", "image": "none", "command": ["sleep", "60"], "envFrom": [{"configMapRef": {"name": "settings"}}]}]}}"#,
    r#"{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "absent.homeostat.dev"},
        "spec": {"holderIdentity": "replica-1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}}"#,
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["nobody.example.dev/keep"]}}"#,
];

/// Returns the token of a user who may read everything.
async fn administrator(server: &Server) -> String {
    told(server, &["create", "serviceaccount", "admin"]).await;
    let binding = ["create", "clusterrolebinding", "admin", "--clusterrole=cluster-admin"];
    told(server, &[&binding[..], &["--serviceaccount=default:admin"]].concat()).await;
    told(server, &["create", "token", "admin"]).await.trim().to_owned()
}

#[tokio::test]
async fn the_first_page_names_the_causes_of_fourteen_faults() {
    let Some(mut script) = browser_script("faults.mjs") else { return };
    let folder = passable_folder();
    let server = Server::start(folder.path(), &["--ephemeral", "--node"]).await;
    let faulty = start(&server, folder.path()).await;
    told(&server, &["create", "configmap", "taken", "--from-literal=a=theirs"]).await;
    for name in ["right", "owner", "child", "loop"] {
        create(&server, folder.path(), &object("Task", name, "")).await;
    }
    create(&server, folder.path(), &object("Task", "undecodable", r#", "size": 13"#)).await;
    for name in ["broken", "slow"] {
        create(&server, folder.path(), &object("Cloudlet", name, "")).await;
    }
    for text in OBJECTS {
        create(&server, folder.path(), text).await;
    }
    told(&server, &["delete", "configmap", "held", "--wait=false"]).await;
    told(&server, &["create", "deployment", "picture", "--image=nowhere"]).await;
    told(&server, &["create", "deployment", "crash", "--image=none", "--", "sh", "-c", "exit 7"]).await;

    let _silent = plant_admission_faults(&server, folder.path()).await;

    let url = format!("http://{}/#token={}", faulty.admin, administrator(&server).await);
    let output = script.arg(url).args(FAULTS.map(|(_, words)| words)).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["missing"], json!([]), "{found:#}");
    for (fault, words) in FAULTS {
        assert!(found["clicks"][words].as_u64().is_some_and(|clicks| clicks <= 3), "{fault}: {found:#}");
    }
    server.stop().await;
}
