//! ValidatingAdmissionPolicy: refuses, warns, or annotates the audit log.

use homeostat_api::kinds::admissionregistration::validating_admission_policy_binding::VALIDATING_ADMISSION_POLICY_BINDING;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::{Cause, Details, Status};
use serde_json::{Value, json};

use super::evaluate::{PolicyEvaluation, ShownObjects};
use super::parameters::parameters;
use super::{ignores_failures, matches};
use crate::admission::AdmissionRequest;

/// The maximum length of an expression's message, as in Kubernetes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The maximum length of an audit annotation's value, as in Kubernetes.
const ANNOTATION_CHARS_MAX: usize = 10 * 1024;

/// The reason a policy refuses a request.
struct PolicyDenial {
    message: String,
    /// Empty for the default reason.
    reason: String,
}

impl PolicyDenial {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: String::new() }
    }
}

pub(super) async fn validate(
    request: &AdmissionRequest<'_>,
    policies: Vec<Value>,
    object: &Value,
) -> Result<(), Status> {
    let bindings = request.load_all(&VALIDATING_ADMISSION_POLICY_BINDING);
    let mut first = None;
    for policy in &policies {
        let resource = match matches(request, &policy["spec"]["matchConstraints"], object) {
            Ok(Some(resource)) => resource,
            Ok(None) => continue,
            Err(status) => {
                let why = format!("failed to configure policy: {}", status.message);
                first = first.or((!ignores_failures(policy)).then(|| (policy, None, PolicyDenial::new(why))));
                continue;
            }
        };
        let own = bindings.iter().filter(|binding| binding["spec"]["policyName"] == *meta::name(policy));
        for binding in own {
            let denial = denial_of_binding(request, (policy, binding), &resource, object).await;
            first = first.or(denial.map(|denial| (policy, Some(binding), denial)));
        }
    }
    first.map_or(Ok(()), |(policy, binding, denial)| Err(refusal(request, object, (policy, binding), denial)))
}

/// Returns the first denial by a policy with one binding, and adds its warnings along the way.
async fn denial_of_binding(
    request: &AdmissionRequest<'_>,
    (policy, binding): (&Value, &Value),
    resource: &Resource,
    object: &Value,
) -> Option<PolicyDenial> {
    let misconfigured = |why: &str| {
        (!ignores_failures(policy)).then(|| PolicyDenial::new(format!("failed to configure binding: {why}")))
    };
    let selected = &binding["spec"]["matchResources"];
    match matches(request, selected, object) {
        Ok(Some(_)) => {}
        Ok(None) => return None,
        Err(status) => return misconfigured(&status.message),
    }
    let parameters = match parameters(request, policy, binding).await {
        Ok(parameters) => parameters,
        Err(why) => return misconfigured(&why),
    };
    let shown = match ShownObjects::convert(request, resource, object).await {
        Ok(shown) => shown,
        Err(status) => return misconfigured(&status.message),
    };
    let (mut first, mut audited) = (None, Vec::new());
    for parameter in parameters {
        let mut evaluation = PolicyEvaluation::new(request, resource, &shown, &parameter);
        match evaluation.conditions_match(policy) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(why) => {
                first = first.or((!ignores_failures(policy)).then(|| PolicyDenial::new(why)));
                continue;
            }
        }
        evaluation.define_variables(&policy["spec"]["variables"]);
        for (number, denial) in denials(&mut evaluation, policy) {
            let actions = binding["spec"]["validationActions"].as_array().into_iter().flatten();
            for action in actions.filter_map(Value::as_str) {
                match action {
                    "Deny" if first.is_none() => {
                        first = Some(PolicyDenial {
                            message: denial.message.clone(),
                            reason: denial.reason.clone(),
                        });
                    }
                    "Warn" => request.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        meta::name(policy),
                        meta::name(binding),
                        denial.message
                    )),
                    "Audit" => audited.push(json!({"message": denial.message, "policy": meta::name(policy),
                        "binding": meta::name(binding), "expressionIndex": number,
                        "validationActions": binding["spec"]["validationActions"]})),
                    _ => {}
                }
            }
        }
        first = first.or_else(|| annotate(request, &mut evaluation, policy));
    }
    if !audited.is_empty() {
        let key = "validation.policy.admission.k8s.io/validation_failure".to_owned();
        request.annotate(key, Value::from(audited).to_string());
    }
    first
}

/// Returns the denials from a policy's validations, each with the index of its validation.
fn denials(evaluation: &mut PolicyEvaluation<'_>, policy: &Value) -> Vec<(usize, PolicyDenial)> {
    let mut denials = Vec::new();
    for (number, validation) in policy["spec"]["validations"].as_array().into_iter().flatten().enumerate() {
        let text = validation["expression"].as_str().unwrap_or_default();
        match evaluation.evaluate(text).map(|value| value.as_bool()) {
            Ok(Some(true)) => {}
            Ok(_) => {
                let message = message_of(evaluation, validation);
                let reason = validation["reason"].as_str().unwrap_or_default().to_owned();
                denials.push((number, PolicyDenial { message, reason }));
            }
            Err(_) if ignores_failures(policy) => {}
            Err(why) => denials.push((number, PolicyDenial::new(why))),
        }
    }
    denials
}

/// Returns the message of a validation: the result of its message expression, its own message, or the expression
/// itself.
fn message_of(evaluation: &mut PolicyEvaluation<'_>, validation: &Value) -> String {
    let text = |field: &str| validation[field].as_str().unwrap_or_default().trim().to_owned();
    let made = Some(text("messageExpression")).filter(|text| !text.is_empty());
    let made = made.and_then(|text| evaluation.evaluate(&text).ok());
    let made = made.and_then(|value| value.as_text().map(|text| text.trim().to_owned()));
    let is_usable =
        |text: &String| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
    let own = Some(text("message")).filter(|text| !text.is_empty());
    made.filter(is_usable).or(own).unwrap_or_else(|| format!("failed expression: {}", text("expression")))
}

/// Adds the audit annotations of a policy. Returns the first failure; failed evaluations are skipped if the policy
/// ignores failures.
fn annotate(
    request: &AdmissionRequest<'_>,
    evaluation: &mut PolicyEvaluation<'_>,
    policy: &Value,
) -> Option<PolicyDenial> {
    for annotation in policy["spec"]["auditAnnotations"].as_array().into_iter().flatten() {
        let text = annotation["valueExpression"].as_str().unwrap_or_default();
        match evaluation.evaluate(text) {
            Ok(value) if value.is_null() => {}
            Ok(value) if value.as_text().is_some() => {
                let key =
                    format!("{}/{}", meta::name(policy), annotation["key"].as_str().unwrap_or_default());
                let told = value.as_text().unwrap_or_default();
                request.annotate(key, told.trim().chars().take(ANNOTATION_CHARS_MAX).collect());
            }
            Ok(_) => {
                return Some(PolicyDenial::new(format!(
                    "valueExpression '{text}' resulted in unsupported return type. Return type must be either string or null."
                )));
            }
            Err(_) if ignores_failures(policy) => {}
            Err(why) => return Some(PolicyDenial::new(why)),
        }
    }
    None
}

fn refusal(
    request: &AdmissionRequest<'_>,
    object: &Value,
    (policy, binding): (&Value, Option<&Value>),
    denial: PolicyDenial,
) -> Status {
    let binding =
        binding.map(|binding| format!(" with binding '{}'", meta::name(binding))).unwrap_or_default();
    let name = meta::name(policy);
    let message = format!("ValidatingAdmissionPolicy '{name}'{binding} denied request: {}", denial.message);
    let reason = if denial.reason.is_empty() { "Invalid".to_owned() } else { denial.reason };
    let code = match &*reason {
        "Forbidden" => 403,
        "Unauthorized" => 401,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    let status = request.forbidden(object, &message);
    let cause = Cause { message, ..Cause::default() };
    let details = status.details.map(|details| Details { causes: vec![cause], ..details });
    Status::denied(code, reason, status.message, details)
}
