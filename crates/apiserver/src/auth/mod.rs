//! Authentication, impersonation, RBAC and the review APIs.
//!
//! Reading order: [`Identity`] and [`RequestAttributes`] (who asks for what), [`rule`] and `policy` (the content of
//! roles), [`Authorizer`] (decisions), `escalation` and `permission_coverage` (who may grant permissions),
//! `certificate_permissions` (who may approve certificates), [`forbidden`] (the wording of refusals), [`authenticate`]
//! (who sent a request), `impersonate` (acting as another user), [`service_account`] and [`jwt`] (tokens of programs),
//! [`review`] (questions that clients may ask about all this).

pub mod authenticate;
mod certificate_permissions;
mod escalation;
pub mod forbidden;
mod impersonate;
pub mod jwt;
mod permission_coverage;
mod policy;
mod rbac;
mod request_attributes;
pub mod review;
pub mod rule;
pub mod service_account;
mod text_list;
mod token_file;

pub use authenticate::{Authenticator, Peer};
pub(crate) use escalation::RoleWrite;
pub use homeostat_api::identity::{ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED};
pub use impersonate::impersonate;
pub use policy::GROUP as RBAC_GROUP;
pub(crate) use policy::SERVICE_ACCOUNT_PREFIX;
pub(crate) use policy::fill_aggregated;
pub use rbac::Authorizer;
pub use request_attributes::{Decision, RequestAttributes};
pub use review::Reviewer;
pub use rule::Rule;
pub use service_account::TokenIssuer;
pub use token_file::StaticTokens;
