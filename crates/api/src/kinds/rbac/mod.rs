//! Permissions: the kinds of `rbac.authorization.k8s.io`, one file each.

pub mod cluster_role;
pub(crate) mod cluster_role_binding;
pub(crate) mod role;
pub(crate) mod role_binding;

use crate::resource::declaration::BuiltInKind;

/// The API group.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The kinds of the group.
pub(super) static KINDS: &[&BuiltInKind] = &[
    &cluster_role_binding::CLUSTER_ROLE_BINDING,
    &cluster_role::CLUSTER_ROLE,
    &role_binding::ROLE_BINDING,
    &role::ROLE,
];
