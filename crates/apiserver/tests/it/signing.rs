//! Tests who may approve and sign certificate requests: a permission on the request is not enough, and one for the
//! signer is needed, too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::test_server::{MERGE, TestServer};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const EVERYBODY: &[&str] = &["system:authenticated"];

fn request(name: &str, signer: &str) -> Value {
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "usages": ["client auth"], "request": STANDARD.encode(pem)}})
}

fn condition(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "Mine", "message": "",
        "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
}

/// Lets a user do this to all requests, and to one signer or one domain.
async fn allow(plane: &TestServer, user: &str, verb: &str, signer: &str) {
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval",
            "certificatesigningrequests/status", "certificatesigningrequests"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": [verb], "resourceNames": [signer]}]);
    let role = json!({"metadata": {"name": user}, "rules": rules});
    plane.post(&format!("{RBAC}/clusterroles"), role).await.expect(201);
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}]});
    plane.post(&format!("{RBAC}/clusterrolebindings"), binding).await.expect(201);
}

#[tokio::test]
async fn approving_a_request_needs_permission_on_its_signer() {
    let plane = TestServer::start().await;
    for (name, signer) in
        [("ours", "demo.dev/clients"), ("other", "demo.dev/servers"), ("far", "away.dev/clients")]
    {
        plane.post(REQUESTS, request(name, signer)).await.expect(201);
    }
    allow(&plane, "ann", "approve", "demo.dev/clients").await;
    allow(&plane, "dom", "approve", "demo.dev/*").await;
    allow(&plane, "sig", "sign", "demo.dev/*").await;
    let approve = async |user: &str, name: &str| {
        let who = plane.acting_as(user, EVERYBODY);
        who.patch(&format!("{REQUESTS}/{name}/approval?dryRun=All"), MERGE, condition("Approved")).await
    };
    for (user, name, code) in [
        ("ann", "ours", 200),
        ("ann", "other", 403),
        ("ann", "far", 403),
        ("dom", "ours", 200),
        ("dom", "other", 200),
        ("dom", "far", 403),
        ("sig", "ours", 403),
    ] {
        let answer = approve(user, name).await;
        assert_eq!(answer.code, code, "{user} {name}: {}", answer.body);
    }
    let said = "certificatesigningrequests.certificates.k8s.io \"other\" is forbidden: user not permitted to approve \
        requests with signerName \"demo.dev/servers\"";
    assert_eq!(approve("ann", "other").await.body["message"], said);
    // Naming another signer in the same patch is refused, and does not help.
    let mut moved = condition("Approved");
    moved["spec"]["signerName"] = "demo.dev/clients".into();
    let ann = plane.acting_as("ann", EVERYBODY);
    ann.patch(&format!("{REQUESTS}/other/approval"), MERGE, moved).await.expect(403);
    // An administrator of everything may approve for every signer.
    plane.patch(&format!("{REQUESTS}/far/approval"), MERGE, condition("Approved")).await.expect(200);
}

#[tokio::test]
async fn signing_a_request_needs_permission_on_its_signer() {
    let plane = TestServer::start().await;
    plane.post(REQUESTS, request("ours", "demo.dev/clients")).await.expect(201);
    allow(&plane, "ann", "approve", "demo.dev/clients").await;
    allow(&plane, "sig", "sign", "demo.dev/clients").await;
    let key = rcgen::KeyPair::generate().unwrap();
    let pem = rcgen::CertificateParams::default().self_signed(&key).unwrap().pem();
    let signed = json!({"status": {"certificate": STANDARD.encode(pem)}});
    let (ann, sig) = (plane.acting_as("ann", EVERYBODY), plane.acting_as("sig", EVERYBODY));
    let status = format!("{REQUESTS}/ours/status");
    ann.patch(&status, MERGE, signed.clone()).await.expect(403);
    ann.patch(&status, MERGE, condition("Failed")).await.expect(403);
    // A change to neither requires no permission for the signer.
    ann.patch(&status, MERGE, json!({"metadata": {"labels": {"seen": "yes"}}})).await.expect(200);
    // The request itself cannot be signed or approved through its main endpoint.
    let main = format!("{REQUESTS}/ours");
    ann.patch(&main, MERGE, signed.clone()).await.expect(200);
    assert_eq!(plane.get(&main).await.expect(200)["status"], json!({}), "nothing was signed");
    sig.patch(&status, MERGE, signed).await.expect(200);
    assert!(plane.get(&main).await.expect(200)["status"]["certificate"].is_string());
}

#[tokio::test]
async fn an_approval_that_nobody_signs_causes_a_warning() {
    let plane = TestServer::start().await;
    for (name, signer) in [("jane", "kubernetes.io/nobody"), ("ours", "demo.dev/clients")] {
        plane.post(REQUESTS, request(name, signer)).await.expect(201);
    }
    let approve = async |name: &str| {
        let answer = plane.patch(&format!("{REQUESTS}/{name}/approval"), MERGE, condition("Approved")).await;
        let warned =
            answer.headers.get("warning").map(|warned| warned.to_str().unwrap_or_default().to_owned());
        answer.expect(200);
        warned
    };
    let words = "299 - \"the approval is stored, but this server signs nothing for kubernetes.io/nobody: \
        status.certificate stays empty\"";
    assert_eq!(approve("jane").await.as_deref(), Some(words));
    assert_eq!(approve("jane").await, None, "it is approved already");
    assert_eq!(approve("ours").await, None, "an operator may sign those");
}
