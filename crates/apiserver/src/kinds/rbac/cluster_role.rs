//! ClusterRole: rights everywhere.

use crate::kinds::declaration::Kind;
use crate::kinds::names::NameRule;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate;

/// Rights everywhere.
pub(crate) static CLUSTER_ROLE: Kind = Kind {
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    validate: Some(validate::cluster::cluster_role),
    ..Kind::cluster_scoped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole")
};
