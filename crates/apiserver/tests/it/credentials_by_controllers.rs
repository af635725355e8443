//! Tests credentials that Kubernetes' controllers issue: signed certificate requests, and tokens in Secrets.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_apiserver::ApiServer;
use homeostat_apiserver::auth::Authenticator;
use homeostat_apiserver::serve::{Config, CredentialStorage, Server};
use homeostat_core::{Clock, Entropy};
use homeostat_store::{Memory, SharedStore};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

use crate::processor_time::ProcessorTime;
use crate::test_server::{MERGE, TestServer};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// A server that issues credentials, and its authenticator.
struct Issuing {
    plane: TestServer,
    authenticator: Arc<Authenticator>,
    ca: CertificateDer<'static>,
    _folder: tempfile::TempDir,
}

async fn start() -> Issuing {
    let folder = tempfile::tempdir().unwrap();
    let store: SharedStore = Arc::new(Memory::new());
    let server = Server::bind(Config {
        listen: ([127, 0, 0, 1], 0).into(),
        storage: CredentialStorage::Memory,
        kubeconfig: folder.path().join("kubeconfig"),
        clock: Clock::system(),
        entropy: Entropy::system(),
    })
    .unwrap();
    let authenticator = Arc::new(server.authenticator(Arc::clone(&store)).unwrap());
    let builder = ApiServer::builder(store)
        .authenticator(Arc::clone(&authenticator))
        .authority(server.authority())
        .root_ca(&*server.credentials().ca_pem);
    let ca = server.credentials().ca_certificate().unwrap();
    Issuing { plane: TestServer::start_with(builder).await, authenticator, ca, _folder: folder }
}

/// Returns a certificate request with this name, for a subject with this name and these groups.
fn request(name: &str, signer: &str, (owner, group): (&str, &str), usages: &[&str]) -> Value {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::OrganizationName, group);
    params.distinguished_name.push(rcgen::DnType::CommonName, owner);
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "usages": usages, "request": STANDARD.encode(pem), "expirationSeconds": 3600}})
}

fn approval() -> Value {
    json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Mine", "message": ""}]}})
}

#[tokio::test]
async fn an_approved_request_is_signed() {
    let issuing = start().await;
    let plane = &issuing.plane;
    let signer = "kubernetes.io/kube-apiserver-client";
    let wanted = request("jane", signer, ("jane", "team"), &["client auth", "digital signature"]);
    plane.post(REQUESTS, wanted).await.expect(201);
    let path = format!("{REQUESTS}/jane");
    plane.patch(&format!("{path}/approval"), MERGE, approval()).await.expect(200);
    let has_certificate = |body: &Value| body["status"]["certificate"].is_string();
    let issued = plane.until(&path, |answer| has_certificate(&answer.body)).await.body;
    let pem = STANDARD.decode(issued["status"]["certificate"].as_str().unwrap()).unwrap();
    let der = CertificateDer::from_pem_slice(&pem).unwrap();
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    let (_, ca) = x509_parser::parse_x509_certificate(&issuing.ca).unwrap();
    certificate.verify_signature(Some(ca.public_key())).expect("our authority signed it");
    let subject = certificate.subject();
    assert_eq!(subject.iter_common_name().next().unwrap().as_str().unwrap(), "jane");
    assert_eq!(subject.iter_organization().next().unwrap().as_str().unwrap(), "team");
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !certificate.is_ca());
    let validity = certificate.validity();
    let lifetime_s = validity.not_after.timestamp() - validity.not_before.timestamp();
    assert_eq!(lifetime_s, 3600 + 300, "as long as was asked for, and five minutes before");
}

#[tokio::test]
async fn a_request_that_breaks_its_signers_rules_fails() {
    let issuing = start().await;
    let plane = &issuing.plane;
    let wanted = request("bad", "kubernetes.io/kube-apiserver-client", ("jane", "team"), &["server auth"]);
    plane.post(REQUESTS, wanted).await.expect(201);
    let path = format!("{REQUESTS}/bad");
    plane.patch(&format!("{path}/approval"), MERGE, approval()).await.expect(200);
    let failed = |body: &Value| body["status"]["conditions"].as_array().is_some_and(|all| all.len() == 2);
    let failed = plane.until(&path, |answer| failed(&answer.body)).await.body;
    let condition = &failed["status"]["conditions"][1];
    assert_eq!(condition["type"], "Failed");
    assert_eq!(condition["reason"], "SignerValidationFailure");
    assert_eq!(condition["message"], "invalid usage for client certificate: server auth");
    assert!(failed["status"]["certificate"].is_null());
}

#[tokio::test]
async fn a_node_that_may_gets_its_certificate_by_itself() {
    let issuing = start().await;
    let plane = &issuing.plane;
    let node = plane.acting_as("system:node:a", &["system:nodes", "system:authenticated", "system:masters"]);
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    let usages = ["client auth", "digital signature"];
    let wanted = request("a", signer, ("system:node:a", "system:nodes"), &usages);
    node.post(REQUESTS, wanted).await.expect(201);
    let has_certificate = |body: &Value| body["status"]["certificate"].is_string();
    let issued = plane.until(&format!("{REQUESTS}/a"), |answer| has_certificate(&answer.body)).await.body;
    let condition = &issued["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("Approved"), &json!("AutoApproved")));
    assert_eq!(
        condition["message"],
        "Auto approving self kubelet client certificate after SubjectAccessReview."
    );
}

#[tokio::test]
async fn a_secret_holds_a_token_as_long_as_its_account_exists() {
    let issuing = start().await;
    let plane = &issuing.plane;
    plane.post(ACCOUNTS, json!({"metadata": {"name": "robot"}})).await.expect(201);
    let secret = json!({"metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token"});
    plane.post(SECRETS, secret.clone()).await.expect(201);
    let path = format!("{SECRETS}/t");
    let filled = plane.until(&path, |answer| answer.body["data"]["token"].is_string()).await.body;
    let decode = |field: &str| {
        String::from_utf8(STANDARD.decode(filled["data"][field].as_str().unwrap()).unwrap()).unwrap()
    };
    assert_eq!(decode("namespace"), "default");
    assert!(decode("ca.crt").contains("BEGIN CERTIFICATE"));
    assert!(filled["metadata"]["annotations"]["kubernetes.io/service-account.uid"].is_string());
    let token = decode("token");
    let accepts = || issuing.authenticator.accept(&token, &[]).map(|accepted| accepted.identity.name);
    assert_eq!(accepts().as_deref(), Ok("system:serviceaccount:default:robot"));
    assert!(issuing.authenticator.accept(&token, &["elsewhere".to_owned()]).is_err());

    plane.ask("DELETE", &format!("{ACCOUNTS}/robot"), Value::Null).await.expect(200);
    plane.until(&path, |answer| answer.code == 404).await;
    assert!(accepts().is_err(), "its account and its Secret are gone");
    plane.post(SECRETS, secret).await.expect(201);
    plane.until(&path, |answer| answer.code == 404).await;
}

#[tokio::test]
async fn a_token_is_refused_once_its_secret_is_gone() {
    let issuing = start().await;
    let plane = &issuing.plane;
    let secret = json!({"metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token"});
    plane.post(SECRETS, secret).await.expect(201);
    let path = format!("{SECRETS}/t");
    let filled = plane.until(&path, |answer| answer.body["data"]["token"].is_string()).await.body;
    let token = STANDARD.decode(filled["data"]["token"].as_str().unwrap()).unwrap();
    let token = String::from_utf8(token).unwrap();
    assert!(issuing.authenticator.accept(&token, &[]).is_ok());
    plane.ask("DELETE", &path, Value::Null).await.expect(200);
    assert!(issuing.authenticator.accept(&token, &[]).is_err());
}

/// How often a token is checked to measure it.
const CHECKS: u32 = 50;

/// Creates an account with this many `imagePullSecrets`, and a Secret with this many other keys; returns its two kinds
/// of tokens: the one in the Secret, and one that is bound to the Secret.
async fn tokens_of_account(issuing: &Issuing, name: &str, entries: usize) -> [String; 2] {
    let account = json!({"metadata": {"name": name}, "imagePullSecrets": vec![json!({}); entries]});
    issuing.plane.post(ACCOUNTS, account).await.expect(201);
    let data: serde_json::Map<_, _> = (0..entries).map(|at| (format!("k{at}"), json!(""))).collect();
    let secret = json!({"metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": name}},
        "type": "kubernetes.io/service-account-token", "data": data});
    issuing.plane.post(SECRETS, secret).await.expect(201);
    let path = format!("{SECRETS}/{name}");
    let filled = issuing.plane.until(&path, |answer| answer.body["data"]["token"].is_string()).await.body;
    let held = STANDARD.decode(filled["data"]["token"].as_str().unwrap()).unwrap();
    let bound = json!({"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": name}}});
    let issuer = issuing.authenticator.issuer().unwrap();
    let bound = issuer.request("default", name, bound).unwrap();
    [String::from_utf8(held).unwrap(), bound["status"]["token"].as_str().unwrap().to_owned()]
}

/// The check of a token comes before any limit on its user, so it must not cost more for users who write large objects.
#[tokio::test]
async fn a_token_of_a_large_account_is_checked_as_fast_as_any_other() {
    let issuing = start().await;
    let large = tokens_of_account(&issuing, "large", 40_000).await;
    let small = tokens_of_account(&issuing, "small", 1).await;
    let time_checks = |token: &str| {
        issuing.authenticator.accept(token, &[]).unwrap();
        let started = ProcessorTime::start();
        for _ in 0..CHECKS {
            issuing.authenticator.accept(token, &[]).unwrap();
        }
        started.elapsed()
    };
    let account = issuing.plane.get(&format!("{ACCOUNTS}/large")).await.expect(200).to_string();
    let started = ProcessorTime::start();
    assert!(serde_json::from_str::<Value>(&account).is_ok());
    let parse = started.elapsed();
    for (large, small) in large.iter().zip(&small) {
        let (took, usual) = (time_checks(large), time_checks(small));
        let allowed = 2 * usual + parse * CHECKS / 5;
        assert!(
            took < allowed,
            "{CHECKS} checks took {took:?}, {usual:?} for a small account; one parse {parse:?}"
        );
    }
}
