//! Decides who may approve or sign certificate requests. This requires a permission for the signer in addition to the
//! permission on the request: a user who approves requests for one signer must have no say over another.
//!
//! Permissions name a signer (`example.com/clients`) or all signers of a domain (`example.com/*`).

use super::{Authorizer, Identity, RequestAttributes};

const GROUP: &str = "certificates.k8s.io";

impl Authorizer {
    /// Returns whether the user may `approve` or `sign` for this signer.
    pub(crate) fn may_act_for_signer(&self, who: &Identity, verb: &str, signer: &str) -> bool {
        let domain = signer.split('/').next().unwrap_or_default();
        let may = |name: &str| {
            let (group, resource) = (GROUP, "signers");
            let what =
                RequestAttributes::Resource { verb, group, resource, subresource: "", namespace: "", name };
            self.allows(who, &what)
        };
        may(signer) || may(&format!("{domain}/*"))
    }
}
