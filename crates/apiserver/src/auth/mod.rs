//! Who asks, and whether they may: authentication, impersonation, RBAC and the review APIs.
//!
//! Reading order: [`Identity`] and [`Attributes`] (who and what), [`rule`] and `policy` (what roles say),
//! [`Authorizer`] (may they), `escalation` (may they grant it), [`forbidden`] (how a refusal reads).

mod escalation;
pub mod forbidden;
mod identity;
mod impersonate;
mod policy;
mod rbac;
pub mod rule;

pub use identity::{ANONYMOUS, AUTHENTICATED, Attributes, Decision, Identity, MASTERS, UNAUTHENTICATED};
pub use impersonate::impersonate;
pub use policy::GROUP as RBAC_GROUP;
pub use rbac::Authorizer;
pub use rule::Rule;
