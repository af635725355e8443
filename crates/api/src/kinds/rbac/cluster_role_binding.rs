//! ClusterRoleBinding: grants a role in the whole cluster.

use crate::kinds::rbac::role_binding;
use crate::names::NameRule;
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// Grants a role in the whole cluster.
pub(crate) static CLUSTER_ROLE_BINDING: BuiltInKind = BuiltInKind {
    old_versions: &["v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    defaults: Some(role_binding::defaults),
    validate: Some(validate),
    validate_update: Some(role_binding::validate_update),
    columns: role_binding::COLUMNS,
    cells: Some(role_binding::cells),
    ..BuiltInKind::cluster_scoped(
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
    )
};

/// Validates a ClusterRoleBinding.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    role_binding::binding(object, &["ClusterRole"], false, errors);
}
