//! May they approve or sign a request for a certificate? That takes a right on the signer, beside the one on the request: who may
//! approve what one signer signs must not have a say in what another signs.
//!
//! Rights name a signer (`example.com/clients`) or all of a domain (`example.com/*`).

use serde_json::Value;

use super::{Attributes, Authorizer, Identity};
use crate::status::{About, Status};

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";

impl Authorizer {
    /// May they change the request `old` into `new` through this subresource? The signer is that of the stored request: a change
    /// of it is refused elsewhere, and must not help here.
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
        Err(Status::forbidden(&About { group: GROUP, resource: PLURAL, name }, &why))
    }
}

/// Does the certificate change, or what is said about it?
fn is_signed_anew(new: &Value, old: &Value) -> bool {
    let said = |request: &Value, field: &str| {
        let value = request["status"][field].clone();
        let is_empty = value == "" || value.as_array().is_some_and(Vec::is_empty);
        if is_empty { Value::Null } else { value }
    };
    ["certificate", "conditions"].iter().any(|field| said(new, field) != said(old, field))
}
