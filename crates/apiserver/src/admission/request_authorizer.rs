//! Implements the `authorizer` of expressions: asks the server's own authorizer about the sender of the request, or
//! about a ServiceAccount.
//!
//! **Invariant:** the answers are the same that a request from that user would get.

use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::object::meta;
use homeostat_api::schema::{
    AuthorizationAnswer, AuthorizationQuestion, AuthorizationTarget, CelAuthorizer, CelData, ResourceTarget,
};
use serde_json::Value;

use super::AdmissionRequest;
use super::request::is_kind;
use crate::auth::{Decision, Identity, RequestAttributes, SERVICE_ACCOUNT_PREFIX};

/// The group of all ServiceAccounts, and the prefix of the group of a namespace's ServiceAccounts.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

impl CelAuthorizer for AdmissionRequest<'_> {
    fn authorize(&self, question: &AuthorizationQuestion) -> AuthorizationAnswer {
        let verb = &*question.verb;
        let what = match &question.target {
            AuthorizationTarget::Path(path) => RequestAttributes::Path { verb, path },
            AuthorizationTarget::Resource(target) => RequestAttributes::Resource {
                verb,
                group: &target.group,
                resource: &target.resource,
                subresource: &target.subresource,
                namespace: &target.namespace,
                name: &target.name,
            },
        };
        let account = question.service_account.as_ref().map(|(namespace, name)| account(namespace, name));
        let who = account.as_ref().unwrap_or(self.user);
        let authorizer = &self.backend.authorizer;
        match authorizer.decide(who, &what) {
            Decision::Allow(reason) => AuthorizationAnswer { is_allowed: true, reason },
            Decision::NoOpinion => {
                let reason = authorizer.describe_missing_roles(who, &what);
                AuthorizationAnswer { is_allowed: false, reason }
            }
        }
    }
}

impl AdmissionRequest<'_> {
    /// Returns the variables with which expressions check permissions.
    pub(super) fn authorizer_variables(&self, object: &Value) -> [(&'static str, CelData); 2] {
        let name = if self.name.is_empty() { meta::name(object) } else { self.name };
        let namespace = if is_kind(self.resource, &NAMESPACE) { name } else { self.namespace };
        let target = ResourceTarget {
            group: self.resource.group.to_string(),
            resource: self.resource.plural.to_string(),
            subresource: self.subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let own = CelData::request_resource_authorizer(target);
        [("authorizer", CelData::authorizer()), ("authorizer.requestResource", own)]
    }
}

fn account(namespace: &str, name: &str) -> Identity {
    Identity {
        name: format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
        groups: vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")],
        ..Identity::default()
    }
}
