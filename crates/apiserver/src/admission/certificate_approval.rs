//! CertificateApproval: approving a certificate request requires the permission to approve for its signer.

use homeostat_api::kinds::certificates::certificate_signing_request::CERTIFICATE_SIGNING_REQUEST;
use homeostat_api::status::Status;
use serde_json::Value;

use super::plugin::{Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    validate: Validate::Now(validate),
    ..Plugin::new("CertificateApproval", |resource| is_kind(resource, &CERTIFICATE_SIGNING_REQUEST))
};

fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    match (request.operation, request.subresource, request.old) {
        (Operation::Update, "approval", Some(old)) => check_signer(request, object, old, "approve"),
        _ => Ok(()),
    }
}

/// Checks that the user has this permission for a request's signer, or for the signer's whole domain.
pub(super) fn check_signer(
    request: &AdmissionRequest<'_>,
    object: &Value,
    old: &Value,
    verb: &str,
) -> Result<(), Status> {
    let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
    if request.backend.authorizer.may_act_for_signer(request.user, verb, signer) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(request.forbidden(object, &why))
}
