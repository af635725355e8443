//! Implements ValidatingAdmissionPolicy and MutatingAdmissionPolicy: expressions that refuse or change writes.
//!
//! A policy does nothing by itself: its bindings say where it applies, with which parameters, and with what effect.
//!
//! **Invariant:** the cost of expressions is bounded for each policy, binding and parameter. A policy that costs more
//! fails, and its failure policy applies.

mod evaluate;
mod mutating;
mod parameters;
mod validating;

use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_api::kinds::admissionregistration::mutating_admission_policy::MUTATING_ADMISSION_POLICY;
use homeostat_api::kinds::admissionregistration::validating_admission_policy::VALIDATING_ADMISSION_POLICY;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use serde_json::Value;

use super::AdmissionRequest;
use super::plugin::{Mutate, Plugin, Validate};
use super::request_matching::{is_admissible, matched_resource, namespace_matches, object_matches};

pub(super) static VALIDATING: Plugin = Plugin {
    validate: Validate::Waiting(validate_boxed),
    ..Plugin::configured("ValidatingAdmissionPolicy", is_admissible)
};

pub(super) static MUTATING: Plugin = Plugin {
    mutate: Mutate::Waiting(mutate_boxed),
    ..Plugin::configured("MutatingAdmissionPolicy", is_admissible)
};

fn mutate_boxed<'a>(
    request: &'a AdmissionRequest<'a>,
    object: &'a mut Value,
) -> BoxFuture<'a, Result<(), Status>> {
    let policies = if object.is_null() || !request.subresource.is_empty() {
        Vec::new()
    } else {
        request.load_all(&MUTATING_ADMISSION_POLICY)
    };
    if policies.is_empty() {
        return Box::pin(std::future::ready(Ok(())));
    }
    Box::pin(mutating::mutate(request, policies, object))
}

fn validate_boxed<'a>(
    request: &'a AdmissionRequest<'a>,
    object: &'a Value,
) -> BoxFuture<'a, Result<(), Status>> {
    let policies = request.load_all(&VALIDATING_ADMISSION_POLICY);
    if policies.is_empty() {
        return Box::pin(std::future::ready(Ok(())));
    }
    Box::pin(validating::validate(request, policies, object))
}

/// Returns the resource in the version that a policy or binding matches; `None` if it does not match.
fn matches(
    request: &AdmissionRequest<'_>,
    criteria: &Value,
    object: &Value,
) -> Result<Option<Arc<Resource>>, Status> {
    let policy = &criteria["matchPolicy"];
    if !is_list_empty(&criteria["excludeResourceRules"])
        && matched_resource(request, &criteria["excludeResourceRules"], policy).is_some()
    {
        return Ok(None);
    }
    let resource = if is_list_empty(&criteria["resourceRules"]) {
        let own = request.resource;
        request.backend.registry.table().get(&own.group, &own.version, &own.plural).cloned()
    } else {
        matched_resource(request, &criteria["resourceRules"], policy)
    };
    let is_selected = resource.is_some()
        && namespace_matches(request, &criteria["namespaceSelector"], object)?
        && object_matches(request, &criteria["objectSelector"], object)?;
    Ok(resource.filter(|_| is_selected))
}

fn is_list_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

/// Returns whether failures of a policy are ignored.
fn ignores_failures(policy: &Value) -> bool {
    policy["spec"]["failurePolicy"] == "Ignore"
}
