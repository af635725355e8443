//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: expressions that refuse or change writes.
//!
//! A policy does nothing by itself: its bindings say where it applies, with which parameters and with what effect.
//!
//! **Invariant:** what expressions may cost is bounded for each policy, binding and parameter; a policy that costs more
//! fails as its failure policy says.

mod evaluate;
mod mutating;
mod parameters;
mod validating;

use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use serde_json::Value;

use super::AdmissionRequest;
use super::plugin::{Mutate, Plugin, Validate};
use super::request_matching::{is_admissible, matched_resource, namespace_matches, object_matches};

pub(super) static VALIDATING: Plugin = Plugin {
    validate: Validate::Now(validating::validate),
    ..Plugin::new("ValidatingAdmissionPolicy", is_admissible)
};

pub(super) static MUTATING: Plugin =
    Plugin { mutate: Mutate::Waiting(mutate_boxed), ..Plugin::new("MutatingAdmissionPolicy", is_admissible) };

fn mutate_boxed<'a>(
    request: &'a AdmissionRequest<'a>,
    object: &'a mut Value,
) -> BoxFuture<'a, Result<(), Status>> {
    Box::pin(async { mutating::mutate(request, object) })
}

/// Returns the resource in the version that a policy or binding matches; `None` if it does not.
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
