//! ClusterRoleBinding: who has a role everywhere.

use crate::kinds::declaration::Kind;
use crate::kinds::names::NameRule;
use crate::kinds::rbac::role_binding;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};

/// Who has a role everywhere.
pub(crate) static CLUSTER_ROLE_BINDING: Kind = Kind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    defaults: Some(role_binding::defaults),
    validate: Some(validate),
    validate_update: Some(role_binding::validate_update),
    columns: role_binding::COLUMNS,
    cells: Some(role_binding::cells),
    ..Kind::cluster_scoped("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding")
};

/// A ClusterRoleBinding.
fn validate(object: &At<'_>, errors: &mut Errors) {
    role_binding::binding(object, &["ClusterRole"], false, errors);
}
