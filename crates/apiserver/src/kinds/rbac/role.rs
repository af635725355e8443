//! Role: rights in a namespace.

use crate::kinds::declaration::Kind;
use crate::kinds::names::NameRule;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate;

/// Rights in a namespace.
pub(crate) static ROLE: Kind = Kind {
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    validate: Some(validate::cluster::role),
    ..Kind::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role")
};
