//! The defaults of the rules and selectors by which admission policies and webhooks match objects.

use serde_json::Map;

use crate::object::fill::{JsonObject, objects_mut, set_if_absent};

pub(in crate::kinds) fn matching(parent: &mut JsonObject) {
    set_if_absent(parent, "matchPolicy", "Equivalent");
    set_if_absent(parent, "namespaceSelector", Map::new());
    set_if_absent(parent, "objectSelector", Map::new());
}

pub(in crate::kinds) fn rule_scope(rule: &mut JsonObject) {
    set_if_absent(rule, "scope", "*");
}

pub(in crate::kinds) fn match_resources(resources: &mut JsonObject) {
    matching(resources);
    for list in ["resourceRules", "excludeResourceRules"] {
        objects_mut(resources, list).for_each(rule_scope);
    }
}
