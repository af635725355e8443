//! Handles authentication, impersonation, RBAC and the review APIs.
//!
//! Reading order: [`Identity`] and [`RequestAttributes`] (the user and the action of a request), `account` (whose
//! limits apply), [`rule`] and `rbac_index` (the content of roles), [`Authorizer`] (decisions), `role_limits` (how much
//! they may cost), `escalation` and `permission_coverage` (who may grant permissions), `certificate_permissions` (who may approve certificates),
//! [`forbidden`] (the wording of refusals), [`authenticate`] (who sent a request), `impersonate` (acting as another
//! user), [`service_account`], `secret_token` and [`jwt`] (tokens for programs), `audience_token` (tokens for
//! recipients other than this server), [`answer_reviews`] (the APIs through which clients ask about all this).

mod account;
pub mod answer_reviews;
mod audience_token;
pub mod authenticate;
mod authorizer;
mod certificate_permissions;
mod escalation;
pub mod forbidden;
mod impersonate;
pub mod jwt;
mod permission_coverage;
mod rbac_index;
mod request_attributes;
mod role_limits;
pub mod rule;
mod rule_strings;
mod secret_token;
pub mod service_account;
mod token_file;

pub(crate) use account::account_of;
pub use answer_reviews::Reviewer;
pub(crate) use audience_token::{AUDIENCE_PREFIX, LIFETIME as AUDIENCE_TOKEN_LIFETIME};
pub use authenticate::{Authenticator, ClientCertificateProof};
pub use authorizer::Authorizer;
pub(crate) use escalation::RoleWrite;
pub use homeostat_api::user_identity::{ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED};
pub use impersonate::impersonate;
pub use rbac_index::GROUP as RBAC_GROUP;
pub(crate) use rbac_index::SERVICE_ACCOUNT_PREFIX;
pub(crate) use rbac_index::fill_aggregated;
pub use request_attributes::{Decision, RequestAttributes};
pub(crate) use role_limits::limits_role_writes;
pub use rule::Rule;
pub(crate) use secret_token::SecretToken;
pub use service_account::TokenIssuer;
pub use token_file::StaticTokens;
