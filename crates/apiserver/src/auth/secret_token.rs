//! Signs and verifies tokens in Secrets. They do not expire; each is valid as long as its Secret contains it and its
//! account exists.
//!
//! **Invariant:** a token that was removed from its Secret is refused, and so is a token whose Secret or account is
//! gone or has been replaced by another one with the same name.

use homeostat_core::Key;
use homeostat_store::Snapshot;
use serde_json::json;

use super::AUTHENTICATED;
use super::Identity;
use super::impersonate::service_account_groups;
use super::rbac_index::SERVICE_ACCOUNT_PREFIX;
use super::service_account::{AcceptedToken, TokenIssuer};
use crate::stored::labels_and_owners::LabelsAndOwners;

/// The issuer of such tokens, regardless of the server's own issuer name.
const ISSUER: &str = "kubernetes/serviceaccount";
/// The prefix of the claims in such tokens.
const CLAIM: &str = "kubernetes.io/serviceaccount/";

/// The content of a Secret's token.
pub(crate) struct SecretToken<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) secret: &'a str,
    pub(crate) account: &'a str,
    pub(crate) uid: &'a str,
}

impl TokenIssuer {
    /// Signs the token for a Secret.
    pub(crate) fn sign_secret_token(&self, about: &SecretToken<'_>) -> String {
        let SecretToken { namespace, secret, account, uid } = about;
        let mut claims =
            json!({"iss": ISSUER, "sub": format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{account}")});
        for (name, value) in [
            ("namespace", namespace),
            ("secret.name", secret),
            ("service-account.name", account),
            ("service-account.uid", uid),
        ] {
            claims[format!("{CLAIM}{name}")] = (*value).into();
        }
        self.keys().signing.sign(&claims)
    }

    /// Returns the owner of a token that is stored in a Secret; `None` for other tokens.
    pub(super) fn verify_secret_token(&self, token: &str, audiences: &[String]) -> Option<AcceptedToken> {
        let claims = self.keys().verify(token).filter(|claims| claims["iss"] == ISSUER)?;
        let claim = |name: &str| claims[format!("{CLAIM}{name}")].as_str();
        let about = SecretToken {
            namespace: claim("namespace")?,
            secret: claim("secret.name")?,
            account: claim("service-account.name")?,
            uid: claim("service-account.uid")?,
        };
        // Such a token names no audience: it is valid for this server only.
        let meant: Vec<String> =
            audiences.iter().filter(|one| self.audiences().contains(one)).cloned().collect();
        (!meant.is_empty() && is_held(&self.store.snapshot(), &about, token))
            .then(|| AcceptedToken { identity: identity(&about), audiences: meant })
    }
}

/// Returns whether the Secret contains this token, and its account is the one named in the token.
fn is_held(snapshot: &Snapshot, about: &SecretToken<'_>, token: &str) -> bool {
    let get = |resource: &str, name: &str| {
        let entry = snapshot.get(&Key::new("", resource, about.namespace, name))?;
        LabelsAndOwners::token_fields(entry).filter(|object| object.deletion_timestamp.is_none())
    };
    get("secrets", about.secret).is_some_and(|secret| secret.has_token(token))
        && get("serviceaccounts", about.account).is_some_and(|account| *account.uid == *about.uid)
}

fn identity(about: &SecretToken<'_>) -> Identity {
    let SecretToken { namespace, account, uid, .. } = about;
    let mut groups = service_account_groups(namespace);
    groups.push(AUTHENTICATED.into());
    let name = format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{account}");
    Identity { name, uid: (*uid).to_owned(), groups, ..Identity::default() }
}
