//! MutatingAdmissionPolicy: changes objects by merging configurations as server-side apply does, or by patches.

use homeostat_api::kinds::admissionregistration::mutating_admission_policy_binding::MUTATING_ADMISSION_POLICY_BINDING;
use homeostat_api::object::meta;
use homeostat_api::patch::apply::merge_configuration;
use homeostat_api::patch::json::JsonPatch;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use serde_json::Value;

use super::evaluate::{PolicyEvaluation, ShownObjects};
use super::parameters::parameters;
use super::{ignores_failures, matches};
use crate::admission::AdmissionRequest;
use crate::admission::webhook::convert_between;
use crate::normalize_object::normalize_mutated;

pub(super) async fn mutate(
    request: &AdmissionRequest<'_>,
    policies: Vec<Value>,
    object: &mut Value,
) -> Result<(), Status> {
    let bindings = request.load_all(&MUTATING_ADMISSION_POLICY_BINDING);
    for policy in &policies {
        let own = bindings.iter().filter(|binding| binding["spec"]["policyName"] == *meta::name(policy));
        for binding in own {
            let id = format!("policy/{}/{}", meta::name(policy), meta::name(binding));
            if request.reinvocation().must_skip(&id) {
                continue;
            }
            let before = object.clone();
            if let Err(why) = apply_binding(request, policy, binding, object).await {
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

async fn apply_binding(
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
    for parameter in parameters(request, policy, binding).await? {
        let mut shown = ShownObjects::convert(request, &resource, object).await.map_err(told)?;
        let mut evaluation = PolicyEvaluation::new(request, &resource, &shown, &parameter);
        if !evaluation.conditions_match(policy)? {
            continue;
        }
        // All mutations share one budget. Variables are evaluated once, and again only for a mutation that uses them
        // after the object changed.
        let mut are_outdated = true;
        for mutation in policy["spec"]["mutations"].as_array().into_iter().flatten() {
            if are_outdated && uses_variables(mutation) {
                evaluation.define_variables(&policy["spec"]["variables"]);
                are_outdated = false;
            }
            let before = shown.object.clone();
            apply_mutation(&mut evaluation, &resource, mutation, &mut shown.object)?;
            if shown.object == before {
                continue;
            }
            *object =
                convert_between(request, &resource, request.resource, &shown.object).await.map_err(told)?;
            normalize_mutated(request.resource, object).map_err(told)?;
            // Every mutation sees the changes made by the previous ones.
            shown.object =
                convert_between(request, request.resource, &resource, object).await.map_err(told)?;
            evaluation.set_object(&shown.object);
            are_outdated = true;
        }
    }
    Ok(())
}

fn uses_variables(mutation: &Value) -> bool {
    let texts = ["applyConfiguration", "jsonPatch"].map(|field| mutation[field]["expression"].as_str());
    texts.into_iter().flatten().any(|text| text.contains("variables"))
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

/// Refuses a configuration that would turn the object into a different one.
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
