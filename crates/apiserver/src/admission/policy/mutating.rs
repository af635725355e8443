//! MutatingAdmissionPolicy: changes objects by configurations that are merged like applied ones, or by patches.

use homeostat_api::kinds::admissionregistration::mutating_admission_policy::MUTATING_ADMISSION_POLICY;
use homeostat_api::kinds::admissionregistration::mutating_admission_policy_binding::MUTATING_ADMISSION_POLICY_BINDING;
use homeostat_api::object::meta;
use homeostat_api::patch::apply::merge_configuration;
use homeostat_api::patch::json::JsonPatch;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use serde_json::Value;

use super::evaluate::PolicyEvaluation;
use super::parameters::parameters;
use super::{ignores_failures, matches};
use crate::admission::AdmissionRequest;
use crate::admission::webhook::convert_between;
use crate::normalize_object::normalize_mutated;

pub(super) fn mutate(request: &AdmissionRequest<'_>, object: &mut Value) -> Result<(), Status> {
    if object.is_null() || !request.subresource.is_empty() {
        return Ok(());
    }
    let policies = request.load_all(&MUTATING_ADMISSION_POLICY, "");
    if policies.is_empty() {
        return Ok(());
    }
    let bindings = request.load_all(&MUTATING_ADMISSION_POLICY_BINDING, "");
    for policy in &policies {
        let own = bindings.iter().filter(|binding| binding["spec"]["policyName"] == *meta::name(policy));
        for binding in own {
            let id = format!("policy/{}/{}", meta::name(policy), meta::name(binding));
            if request.reinvocation().must_skip(&id) {
                continue;
            }
            let before = object.clone();
            if let Err(why) = apply_binding(request, policy, binding, object) {
                *object = before;
                if !ignores_failures(policy) {
                    return Err(refusal(request, object, (policy, binding), &why));
                }
                continue;
            }
            let wants_news = policy["spec"]["reinvocationPolicy"] == "IfNeeded";
            request.reinvocation().record_answer(&id, *object != before, wants_news);
        }
    }
    Ok(())
}

fn refusal(
    request: &AdmissionRequest<'_>,
    object: &Value,
    (policy, binding): (&Value, &Value),
    why: &str,
) -> Status {
    let (policy, binding) = (meta::name(policy), meta::name(binding));
    request.forbidden(object, &format!("policy '{policy}' with binding '{binding}' denied request: {why}"))
}

fn apply_binding(
    request: &AdmissionRequest<'_>,
    policy: &Value,
    binding: &Value,
    object: &mut Value,
) -> Result<(), String> {
    let told = |status: Status| status.message;
    let Some(resource) = matches(request, &policy["spec"]["matchConstraints"], object).map_err(told)? else {
        return Ok(());
    };
    if matches(request, &binding["spec"]["matchResources"], object).map_err(told)?.is_none() {
        return Ok(());
    }
    for parameter in parameters(request, policy, binding)? {
        let mut evaluation = PolicyEvaluation::new(request, &resource, object, &parameter, policy);
        if !evaluation.conditions_match(policy)? {
            continue;
        }
        for mutation in policy["spec"]["mutations"].as_array().into_iter().flatten() {
            // Every mutation sees what those before it made.
            let mut evaluation = PolicyEvaluation::new(request, &resource, object, &parameter, policy);
            let mut shown = convert_between(request.resource, &resource, object);
            apply_mutation(&mut evaluation, &resource, mutation, &mut shown)?;
            *object = convert_between(&resource, request.resource, &shown);
            normalize_mutated(request.resource, object).map_err(told)?;
        }
    }
    Ok(())
}

fn apply_mutation(
    evaluation: &mut PolicyEvaluation<'_>,
    resource: &Resource,
    mutation: &Value,
    object: &mut Value,
) -> Result<(), String> {
    let expression = |field: &str| mutation[field]["expression"].as_str().unwrap_or_default().to_owned();
    match mutation["patchType"].as_str() {
        Some("ApplyConfiguration") => {
            let value = evaluation.evaluate(&expression("applyConfiguration"))?;
            let configuration = value.to_json().filter(Value::is_object);
            let configuration = configuration.ok_or("the expression must evaluate to an Object")?;
            check_configuration(&configuration)?;
            merge_configuration(resource, object, &configuration);
            Ok(())
        }
        Some("JSONPatch") => {
            let value = evaluation.evaluate(&expression("jsonPatch"))?;
            let patch = value.to_json().ok_or("the expression must evaluate to a list of JSONPatch")?;
            let patch = JsonPatch::parse(patch).map_err(|status| status.message)?;
            patch.apply(object).map_err(|status| status.message)
        }
        other => Err(format!("unsupported patch type {:?}", other.unwrap_or_default())),
    }
}

/// Refuses a configuration that would make another object of it.
fn check_configuration(configuration: &Value) -> Result<(), String> {
    for field in ["apiVersion", "kind"] {
        if configuration.get(field).is_some() {
            return Err(format!("{field} may not be set by an apply configuration"));
        }
    }
    let fixed = ["name", "namespace", "uid", "resourceVersion", "generateName"];
    match fixed.iter().find(|field| configuration["metadata"].get(**field).is_some()) {
        Some(field) => Err(format!("metadata.{field} may not be set by an apply configuration")),
        None => Ok(()),
    }
}
