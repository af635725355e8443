//! Checks who may approve or sign a certificate request. That takes a permission on the signer in addition to the one
//! on the request: a user who approves requests for one signer must have no say in those of another.
//!
//! Permissions name a signer (`example.com/clients`) or all signers of a domain (`example.com/*`).

use homeostat_api::status::{ResourceName, Status};
use serde_json::Value;

use super::{Attributes, Authorizer, Identity};

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";

impl Authorizer {
    /// Checks that the user may change the request `old` into `new` through this subresource. The signer is that of
    /// the stored request: a change of it is refused elsewhere, and must not help here.
    pub(crate) fn check_signing(
        &self,
        who: &Identity,
        subresource: &str,
        new: &Value,
        old: &Value,
    ) -> Result<(), Status> {
        let verb = match subresource {
            "approval" => "approve",
            "status" if is_signed_anew(new, old) => "sign",
            _ => return Ok(()),
        };
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        let domain = signer.split('/').next().unwrap_or_default();
        let may = |name: &str| {
            let (group, resource) = (GROUP, "signers");
            let what = Attributes::Resource { verb, group, resource, subresource: "", namespace: "", name };
            self.allows(who, &what)
        };
        if may(signer) || may(&format!("{domain}/*")) {
            return Ok(());
        }
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
        Err(Status::forbidden(&ResourceName { group: GROUP, resource: PLURAL, name }, &why))
    }
}

/// Returns whether the certificate or its conditions change.
fn is_signed_anew(new: &Value, old: &Value) -> bool {
    let said = |request: &Value, field: &str| {
        let value = request["status"][field].clone();
        let is_empty = value == "" || value.as_array().is_some_and(Vec::is_empty);
        if is_empty { Value::Null } else { value }
    };
    ["certificate", "conditions"].iter().any(|field| said(new, field) != said(old, field))
}
