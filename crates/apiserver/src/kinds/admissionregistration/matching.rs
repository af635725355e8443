//! What admission policies and webhooks match: the defaults of rules and selectors, which all of them share.

use serde_json::Map;

use crate::kinds::fill::{Fields, each, fill};

pub(in crate::kinds) fn matching(parent: &mut Fields) {
    fill(parent, "matchPolicy", "Equivalent");
    fill(parent, "namespaceSelector", Map::new());
    fill(parent, "objectSelector", Map::new());
}

pub(in crate::kinds) fn rule_scope(rule: &mut Fields) {
    fill(rule, "scope", "*");
}

pub(in crate::kinds) fn match_resources(resources: &mut Fields) {
    matching(resources);
    for list in ["resourceRules", "excludeResourceRules"] {
        each(resources, list).for_each(rule_scope);
    }
}
