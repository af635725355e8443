//! CertificateSubjectRestriction: refuses requests for a client certificate in the group `system:masters`.

use homeostat_api::kinds::certificates::certificate_signing_request::CERTIFICATE_SIGNING_REQUEST;
use homeostat_api::kinds::pem;
use homeostat_api::status::Status;
use serde_json::Value;

use super::plugin::{Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};
use crate::auth::MASTERS;

pub(super) static PLUGIN: Plugin = Plugin {
    validate: Validate::Now(validate),
    ..Plugin::new("CertificateSubjectRestriction", |resource| is_kind(resource, &CERTIFICATE_SIGNING_REQUEST))
};

/// The signer of certificates for clients of this server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    let is_meant = request.is_of(&CERTIFICATE_SIGNING_REQUEST)
        && request.operation == Operation::Create
        && object["spec"]["signerName"] == CLIENT_SIGNER;
    if !is_meant {
        return Ok(());
    }
    let why = match pem::organizations(object["spec"]["request"].as_str().unwrap_or_default()) {
        Some(groups) if !groups.iter().any(|group| group == MASTERS) => return Ok(()),
        Some(_) => format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"),
        None => {
            "failed to parse CSR: it must be one PEM block, and organizations must be UTF-8 or printable text"
                .into()
        }
    };
    Err(request.forbidden(object, &why))
}
