//! ClusterRoleBinding: who has a role everywhere.

use crate::kinds::declaration::Kind;
use crate::kinds::names::NameRule;
use crate::kinds::rbac::role_binding;
use crate::kinds::strategy::PLAIN;
use crate::kinds::{defaults, validate};
use crate::table::cells;

/// Who has a role everywhere.
pub(crate) static CLUSTER_ROLE_BINDING: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    defaults: Some(defaults::extra::role_binding),
    validate: Some(validate::cluster::cluster_role_binding),
    validate_update: Some(validate::cluster::binding_update),
    columns: role_binding::COLUMNS,
    cells: Some(cells::rbac::binding),
    ..Kind::cluster_scoped("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding")
};
