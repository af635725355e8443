//! CertificateSigning: setting the certificate or the conditions of a request requires the permission to sign for its
//! signer.

use homeostat_api::kinds::certificates::certificate_signing_request::CERTIFICATE_SIGNING_REQUEST;
use homeostat_api::object::fill::is_same;
use homeostat_api::status::Status;
use serde_json::Value;

use super::certificate_approval::check_signer;
use super::plugin::{Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    validate: Validate::Now(validate),
    ..Plugin::new("CertificateSigning", |resource| is_kind(resource, &CERTIFICATE_SIGNING_REQUEST))
};

fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    match (request.operation, request.subresource, request.old) {
        (Operation::Update, "status", Some(old)) if is_signed_anew(object, old) => {
            check_signer(request, object, old, "sign")
        }
        _ => Ok(()),
    }
}

/// Returns whether the write changes the certificate or the conditions.
fn is_signed_anew(new: &Value, old: &Value) -> bool {
    ["certificate", "conditions"].iter().any(|field| !is_same(&new["status"][*field], &old["status"][*field]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_and_empty_are_the_same() {
        let check = |new: Value, old: Value, expected: bool| {
            assert_eq!(is_signed_anew(&json!({"status": new}), &json!({"status": old})), expected);
        };
        check(json!({"certificate": "", "conditions": []}), json!({}), false);
        check(json!({"certificate": "x"}), json!({}), true);
        check(json!({}), json!({"conditions": [{"type": "Approved"}]}), true);
    }
}
