//! Handles certificate requests: approves those from nodes, signs approved ones and deletes old ones, as Kubernetes'
//! controllers do.
//!
//! **Invariant:** only approved requests are signed, and only for Kubernetes' own four signers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_api::kinds::certificates::certificate_signing_request::CERTIFICATE_SIGNING_REQUEST;
use homeostat_api::status::Status;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::auth::{Identity, RequestAttributes};
use crate::backend::Backend;
use crate::certificates::authority::CertificateAuthority;
use crate::certificates::certificate_request::{CertificateRequest, NODE_CLIENT};
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::verbs::{DeleteOptions, remove};
use crate::write_history::ServerTask;

/// How long decided and undecided requests are kept.
const DECIDED_TIME: SignedDuration = SignedDuration::from_hours(1);
const PENDING_TIME: SignedDuration = SignedDuration::from_hours(24);

/// Approves a request if it comes from a node for itself, and signs it if it is approved.
pub(super) async fn reconcile(
    backend: &Backend,
    authority: &CertificateAuthority,
    name: &str,
) -> Result<(), Status> {
    let key = CERTIFICATE_SIGNING_REQUEST.storage().key("", name);
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&key) else { return Ok(()) };
    let object = encode::parse_entry(entry);
    let is_signed = object["status"]["certificate"].as_str().is_some_and(|text| !text.is_empty());
    let has = |kind: &str| find_condition(&object, kind).is_some();
    if is_signed || has("Denied") || has("Failed") {
        return Ok(());
    }
    let Some(outcome) = decide(backend, authority, &object, has("Approved")) else { return Ok(()) };
    let now = backend.now_text();
    let table = backend.registry.table();
    update_stored_object(
        (backend, ServerTask::CertificateRequests),
        table.built_in(&CERTIFICATE_SIGNING_REQUEST),
        &key,
        |stored| {
            // Another decision came first, and is the valid one.
            if stored["status"] == object["status"] && stored["spec"] == object["spec"] {
                outcome.write(stored, &now);
            }
        },
    )
    .await
}

/// The outcome to write into a request.
enum RequestOutcome {
    Approved(&'static str),
    Signed(String),
    Failed(String),
}

impl RequestOutcome {
    fn write(&self, object: &mut Value, now: &str) {
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": message,
                "lastUpdateTime": now, "lastTransitionTime": now})
        };
        let condition = match self {
            Self::Signed(certificate) => {
                object["status"]["certificate"] = STANDARD.encode(certificate).into();
                return;
            }
            Self::Approved(message) => condition("Approved", "AutoApproved", message),
            Self::Failed(message) => condition("Failed", "SignerValidationFailure", message),
        };
        let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.push(condition);
        object["status"]["conditions"] = conditions.into();
    }
}

fn decide(
    backend: &Backend,
    authority: &CertificateAuthority,
    object: &Value,
    is_approved: bool,
) -> Option<RequestOutcome> {
    let spec = &object["spec"];
    let signer = spec["signerName"].as_str().unwrap_or_default();
    let usages: Vec<&str> =
        spec["usages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let pem = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).ok()?;
    let request = match CertificateRequest::parse(&pem) {
        Ok(request) => request,
        Err(error) => {
            tracing::warn!(name = %object["metadata"]["name"], %error, "cannot read the certificate request");
            return None;
        }
    };
    if !is_approved {
        return approve(backend, spec, signer, &usages, &request).map(RequestOutcome::Approved);
    }
    if let Err(why) = request.check_signer(signer, &usages)? {
        return Some(RequestOutcome::Failed(why));
    }
    let lifetime = spec["expirationSeconds"].as_i64().map(SignedDuration::from_secs);
    match authority.sign(&request, &usages, lifetime, backend.clock.now()) {
        Ok(certificate) => Some(RequestOutcome::Signed(certificate)),
        Err(error) => {
            tracing::warn!(name = %object["metadata"]["name"], %error, "cannot sign the certificate request");
            None
        }
    }
}

/// Returns the message for an approval if this request comes from a node that may get its certificate automatically.
fn approve(
    backend: &Backend,
    spec: &Value,
    signer: &str,
    usages: &[&str],
    request: &CertificateRequest,
) -> Option<&'static str> {
    if signer != NODE_CLIENT || request.check_node_client(usages).is_err() {
        return None;
    }
    let who = requester(spec);
    let may = |subresource: &str| {
        let what = RequestAttributes::Resource {
            verb: "create",
            group: "certificates.k8s.io",
            resource: "certificatesigningrequests",
            subresource,
            namespace: "",
            name: "",
        };
        backend.authorizer.decide(&who, &what).is_allowed()
    };
    if who.name == request.common_name && may("selfnodeclient") {
        return Some("Auto approving self kubelet client certificate after SubjectAccessReview.");
    }
    may("nodeclient").then_some("Auto approving kubelet client certificate after SubjectAccessReview.")
}

fn requester(spec: &Value) -> Identity {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Identity {
        name: spec["username"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: groups.map(ToOwned::to_owned).collect(),
        ..Identity::default()
    }
}

fn find_condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array().into_iter().flatten().find(|one| one["type"] == kind)
}

/// Deletes requests that are no longer needed.
pub(super) async fn delete_old(backend: &Backend) {
    let table = backend.registry.table();
    let resource = table.built_in(&CERTIFICATE_SIGNING_REQUEST);
    let (snapshot, now) = (backend.store.snapshot(), backend.clock.now());
    for entry in snapshot.range(&resource.storage().prefix(), "") {
        if is_old(&encode::parse_entry(entry), now) {
            // It is fine if a request is already gone, and a busy store is retried in a minute.
            let _ = remove(
                (backend, ServerTask::CertificateRequests),
                resource,
                ("", entry.key.name()),
                &DeleteOptions::default(),
            )
            .await;
        }
    }
}

fn is_old(object: &Value, now: Timestamp) -> bool {
    let is_older = |time: &Value, age: SignedDuration| {
        time.as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
            .is_some_and(|at| now.duration_since(at) > age)
    };
    let decided = |kind: &str, age: SignedDuration| {
        find_condition(object, kind).is_some_and(|condition| is_older(&condition["lastUpdateTime"], age))
    };
    let is_signed = object["status"]["certificate"].as_str().is_some_and(|text| !text.is_empty());
    let has_conditions = object["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty());
    let is_forgotten = !has_conditions && is_older(&object["metadata"]["creationTimestamp"], PENDING_TIME);
    let approved_time = if is_signed { DECIDED_TIME } else { PENDING_TIME };
    is_forgotten
        || decided("Denied", DECIDED_TIME)
        || decided("Failed", DECIDED_TIME)
        || decided("Approved", approved_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_kept_for_a_while() {
        let now: Timestamp = "2026-01-02T12:00:00Z".parse().unwrap();
        let check = |created: &str, condition: Option<(&str, &str)>, certificate: &str, expected: bool| {
            let conditions = condition.map(|(kind, at)| json!([{"type": kind, "lastUpdateTime": at}]));
            let object = json!({"metadata": {"creationTimestamp": created},
                "status": {"conditions": conditions, "certificate": certificate}});
            assert_eq!(is_old(&object, now), expected, "{object}");
        };
        let (fresh, hours, days) = ("2026-01-02T11:30:00Z", "2026-01-02T10:00:00Z", "2026-01-01T11:00:00Z");
        check(hours, None, "", false);
        check(days, None, "", true);
        check(days, Some(("Approved", fresh)), "x", false);
        check(days, Some(("Approved", hours)), "x", true);
        check(days, Some(("Approved", hours)), "", false);
        check(days, Some(("Approved", days)), "", true);
        check(days, Some(("Denied", fresh)), "", false);
        check(days, Some(("Denied", hours)), "", true);
        check(days, Some(("Failed", hours)), "", true);
    }
}
