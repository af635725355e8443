//! Who asks, and whether they may: authentication, impersonation, RBAC and the review APIs.
//!
//! Reading order: [`Identity`] and [`Attributes`] (who and what), [`rule`] and `policy` (what roles say),
//! [`Authorizer`] (may they), `escalation` and `coverage` (may they grant it), `signing` (may they vouch for it),
//! [`forbidden`] (how a refusal reads), [`authenticate`] (who are they), `impersonate` (as whom), [`service_account`] and
//! [`jwt`] (tokens of programs), [`review`] (the questions clients may ask about all this).

pub mod authenticate;
mod coverage;
mod escalation;
pub mod forbidden;
mod identity;
mod impersonate;
pub mod jwt;
mod policy;
mod rbac;
pub mod review;
pub mod rule;
pub mod service_account;
mod signing;
mod text_list;

pub use authenticate::{Authenticator, Peer};
pub(crate) use escalation::RoleWrite;
pub use identity::{ANONYMOUS, AUTHENTICATED, Attributes, Decision, Identity, MASTERS, UNAUTHENTICATED};
pub use impersonate::impersonate;
pub use policy::GROUP as RBAC_GROUP;
pub(crate) use policy::SERVICE_ACCOUNT_PREFIX;
pub(crate) use policy::fill_aggregated;
pub use rbac::Authorizer;
pub use review::Reviewer;
pub use rule::Rule;
pub use service_account::Issuer;
