//! Who asks, and whether they may: authentication, impersonation, RBAC and the review APIs.

mod identity;

pub use identity::{Attributes, Decision, Identity};
