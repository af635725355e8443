//! ClusterRole: rights everywhere.

use crate::kinds::declaration::Kind;
use crate::kinds::names::NameRule;
use crate::kinds::rbac::role;
use crate::kinds::strategy::PLAIN;
use crate::kinds::validate::at::{At, Errors};
use crate::kinds::validate::selector;

/// Rights everywhere.
pub(crate) static CLUSTER_ROLE: Kind = Kind {
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    validate: Some(validate),
    ..Kind::cluster_scoped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole")
};

/// A ClusterRole: rules may be gathered from others by label.
fn validate(object: &At<'_>, errors: &mut Errors) {
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
        selector::check(&one, errors);
    }
}
