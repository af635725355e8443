//! Who may do what: the kinds of `rbac.authorization.k8s.io`, one file each.

pub(crate) mod cluster_role;
pub(crate) mod cluster_role_binding;
pub(crate) mod role;
pub(crate) mod role_binding;

use crate::kinds::declaration::Kind;

/// The kinds of the group.
pub(super) static KINDS: &[&Kind] = &[
    &cluster_role_binding::CLUSTER_ROLE_BINDING,
    &cluster_role::CLUSTER_ROLE,
    &role_binding::ROLE_BINDING,
    &role::ROLE,
];
