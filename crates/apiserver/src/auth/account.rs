//! Determines the accounts that limits apply to.
//!
//! **Invariant:** every per-user limit is a limit per account: connections, requests, bodies, responses, slots for
//! expensive requests, processor time. A limit by name could be multiplied by creating service accounts.

use super::{Identity, SERVICE_ACCOUNT_PREFIX};

/// Returns the account that limits apply to: a user, or all service accounts of a namespace, since a user who may
/// create one may create many.
pub(crate) fn account_of(identity: &Identity) -> &str {
    let is_service_account = identity.name.starts_with(SERVICE_ACCOUNT_PREFIX);
    let end = identity.name.rfind(':').filter(|_| is_service_account);
    &identity.name[..end.unwrap_or(identity.name.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_of_a_namespace_are_one_account() {
        let check = |name: &str, expected: &str| {
            let identity = Identity { name: name.into(), ..Identity::default() };
            assert_eq!(account_of(&identity), expected);
        };
        check("jane", "jane");
        check("system:node:n1", "system:node:n1");
        check("system:serviceaccount:team:one", "system:serviceaccount:team");
        check("system:serviceaccount:team:two", "system:serviceaccount:team");
        check("team", "team");
    }
}
