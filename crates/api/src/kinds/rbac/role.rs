//! Role: permissions in a namespace.

use crate::names::NameRule;
use crate::resource::declaration::BuiltInKind;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// Permissions in a namespace.
pub(crate) static ROLE: BuiltInKind = BuiltInKind {
    old_versions: &["v1alpha1", "v1beta1"],
    strategy: PLAIN.created_by_update().named(NameRule::PathSegment),
    validate: Some(validate),
    ..BuiltInKind::namespaced("rbac.authorization.k8s.io", "v1", "roles", "Role")
};

/// Validates a Role.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    rules(object, true, errors);
}

pub(in crate::kinds) fn rules(object: &ValueAt<'_>, is_namespaced: bool, errors: &mut Errors) {
    for rule in object.field("rules").items() {
        if rule.field("verbs").len() == 0 {
            rule.field("verbs").required("verbs must contain at least one value", errors);
        }
        let urls = rule.field("nonResourceURLs");
        if urls.len() > 0 {
            if is_namespaced {
                urls.invalid("namespaced rules cannot apply to non-resource URLs", errors);
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|name| rule.field(name).len() > 0) {
                urls.invalid("rules cannot apply to both regular resources and non-resource URLs", errors);
            }
            continue;
        }
        if rule.field("apiGroups").len() == 0 {
            rule.field("apiGroups").required("resource rules must supply at least one api group", errors);
        }
        if rule.field("resources").len() == 0 {
            rule.field("resources").required("resource rules must supply at least one resource", errors);
        }
    }
}
