//! Decides which requests webhooks and policies apply to: rules, selectors, equivalent resources.

use std::sync::Arc;

use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::resource::Resource;
use homeostat_api::status::{ResourceName, Status};
use homeostat_core::selector::LabelSelector;
use serde_json::Value;

use super::AdmissionRequest;
use super::request::is_kind;
use crate::seen_kinds::CONFIGURATION_GROUP;

/// Returns whether webhooks and policies can apply to a resource. The objects that configure admission bypass them, or
/// a broken configuration could never be repaired.
pub(super) fn is_admissible(resource: &Resource) -> bool {
    &*resource.group != CONFIGURATION_GROUP
}

/// Returns the resource that a rule matches: the request's own, or an equivalent one if the match policy allows it.
pub(super) fn matched_resource(
    request: &AdmissionRequest<'_>,
    rules: &Value,
    match_policy: &Value,
) -> Option<Arc<Resource>> {
    let rules = rules.as_array().map(Vec::as_slice).unwrap_or_default();
    let own = (&*request.resource.group, &*request.resource.version, &*request.resource.plural);
    let table = request.backend.registry.table();
    if rules.iter().any(|rule| rule_matches(request, rule, own)) {
        return table.get(own.0, own.1, own.2).cloned();
    }
    if match_policy != "Equivalent" {
        return None;
    }
    let storage = request.resource.storage();
    let others = table.rows.iter().filter(|row| row.storage() == storage);
    let mut others = others.filter(|row| (&*row.group, &*row.version, &*row.plural) != own);
    let is_matched = |row: &&Arc<Resource>| {
        rules.iter().any(|rule| rule_matches(request, rule, (&row.group, &row.version, &row.plural)))
    };
    others.find(is_matched).cloned()
}

/// Returns whether one rule matches.
pub(super) fn rule_matches(
    request: &AdmissionRequest<'_>,
    rule: &Value,
    (group, version, plural): (&str, &str, &str),
) -> bool {
    let has = |field: &str, wanted: &str| {
        rule[field].as_array().is_some_and(|all| all.iter().any(|one| one == "*" || one == wanted))
    };
    let is_in_scope = match rule["scope"].as_str() {
        Some("Namespaced") => request.resource.namespaced,
        Some("Cluster") => !request.resource.namespaced,
        _ => true,
    };
    let is_resource = |one: &Value| {
        let (resource, subresource) = one
            .as_str()
            .unwrap_or_default()
            .split_once('/')
            .unwrap_or((one.as_str().unwrap_or_default(), ""));
        (resource == "*" || resource == plural) && (subresource == "*" || subresource == request.subresource)
    };
    let names = &rule["resourceNames"];
    let is_named =
        names.as_array().is_none_or(|all| all.is_empty() || all.iter().any(|one| one == request.name));
    is_in_scope
        && has("operations", request.operation.name())
        && has("apiGroups", group)
        && has("apiVersions", version)
        && rule["resources"].as_array().is_some_and(|all| all.iter().any(is_resource))
        && is_named
}

/// Returns whether the namespace of a request is selected. Always true for cluster-scoped objects other than
/// Namespaces.
pub(super) fn namespace_matches(
    request: &AdmissionRequest<'_>,
    selector: &Value,
    object: &Value,
) -> Result<bool, Status> {
    let Some(selector) = parse_selector(selector)? else { return Ok(true) };
    let is_namespace = is_kind(request.resource, &NAMESPACE);
    if request.namespace.is_empty() && !is_namespace {
        return Ok(true);
    }
    let of_object = Some(object).filter(|object| is_namespace && !object.is_null()).cloned();
    let name = if is_namespace { request.name } else { request.namespace };
    let missing = || Status::not_found(&ResourceName { group: "", resource: "namespaces", name });
    let namespace = of_object.or_else(|| request.load(&NAMESPACE, "", name)).ok_or_else(missing)?;
    Ok(labels_match(&selector, &namespace))
}

/// Returns whether the new or the old object is selected.
pub(super) fn object_matches(
    request: &AdmissionRequest<'_>,
    selector: &Value,
    object: &Value,
) -> Result<bool, Status> {
    let Some(selector) = parse_selector(selector)? else { return Ok(true) };
    let is_selected = |object: &Value| object.is_object() && labels_match(&selector, object);
    Ok(is_selected(object) || request.old.is_some_and(is_selected))
}

/// Parses a selector; `None` selects everything.
fn parse_selector(selector: &Value) -> Result<Option<LabelSelector>, Status> {
    if selector.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(None);
    }
    LabelSelector::from_json(selector).map(Some).map_err(|error| Status::internal(&error.to_string()))
}

fn labels_match(selector: &LabelSelector, object: &Value) -> bool {
    selector.matches(|key| object["metadata"]["labels"][key].as_str())
}
