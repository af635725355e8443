//! ClusterRole: permissions in the whole cluster.

use crate::kinds::rbac::role;
use crate::kinds::validate::selector;
use crate::names::NameRule;
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// Permissions in the whole cluster.
pub static CLUSTER_ROLE: BuiltInKind = BuiltInKind {
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    validate: Some(validate),
    ..BuiltInKind::cluster_scoped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole")
};

/// Validates a ClusterRole: its rules may be aggregated from others by label.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    role::rules(object, false, errors);
    let gathered = object.field("aggregationRule");
    if !gathered.is_set() {
        return;
    }
    let selectors = gathered.field("clusterRoleSelectors");
    if selectors.len() == 0 {
        selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil", errors);
    }
    for one in selectors.items() {
        selector::validate_label_selector(&one, errors);
    }
}
