//! ValidatingAdmissionPolicy: refuses, warns, or audits. There is no audit log here, so audited failures have no effect;
//! audit annotations are evaluated, because they can fail.

use homeostat_api::kinds::admissionregistration::validating_admission_policy::VALIDATING_ADMISSION_POLICY;
use homeostat_api::kinds::admissionregistration::validating_admission_policy_binding::VALIDATING_ADMISSION_POLICY_BINDING;
use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::{Cause, Details, Status};
use serde_json::Value;

use super::evaluate::PolicyEvaluation;
use super::parameters::parameters;
use super::{ignores_failures, matches};
use crate::admission::AdmissionRequest;

/// The longest message of an expression, as in Kubernetes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// Why a policy refuses.
struct PolicyDenial {
    message: String,
    /// Empty for the usual one.
    reason: String,
}

impl PolicyDenial {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: String::new() }
    }
}

pub(super) fn validate(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Status> {
    let policies = request.load_all(&VALIDATING_ADMISSION_POLICY, "");
    if policies.is_empty() {
        return Ok(());
    }
    let bindings = request.load_all(&VALIDATING_ADMISSION_POLICY_BINDING, "");
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
            let denial = denial_of_binding(request, (policy, binding), &resource, object);
            first = first.or(denial.map(|denial| (policy, Some(binding), denial)));
        }
    }
    first.map_or(Ok(()), |(policy, binding, denial)| Err(refusal(request, object, (policy, binding), denial)))
}

/// Returns the first denial of a policy with one binding. Warnings are given on the way.
fn denial_of_binding(
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
    let parameters = match parameters(request, policy, binding) {
        Ok(parameters) => parameters,
        Err(why) => return misconfigured(&why),
    };
    let mut first = None;
    for parameter in parameters {
        let mut evaluation = PolicyEvaluation::new(request, resource, object, &parameter, policy);
        for denial in denials(&mut evaluation, policy) {
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
                    _ => {}
                }
            }
        }
        first = first.or_else(|| annotation_failure(&mut evaluation, policy));
    }
    first
}

/// Returns what the validations of a policy object to.
fn denials(evaluation: &mut PolicyEvaluation<'_>, policy: &Value) -> Vec<PolicyDenial> {
    let on_failure = |why: String| {
        if ignores_failures(policy) { Vec::new() } else { vec![PolicyDenial::new(why)] }
    };
    match evaluation.conditions_match(policy) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(why) => return on_failure(why),
    }
    let mut denials = Vec::new();
    for validation in policy["spec"]["validations"].as_array().into_iter().flatten() {
        let text = validation["expression"].as_str().unwrap_or_default();
        match evaluation.evaluate(text).map(|value| value.as_bool()) {
            Ok(Some(true)) => {}
            Ok(_) => {
                let message = message_of(evaluation, validation);
                let reason = validation["reason"].as_str().unwrap_or_default().to_owned();
                denials.push(PolicyDenial { message, reason });
            }
            Err(why) => denials.extend(on_failure(why)),
        }
    }
    denials
}

/// Returns the message of a validation: that of its expression, its own, or the expression itself.
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

/// Evaluates the audit annotations. Returns the failure of one, unless failures are ignored.
fn annotation_failure(evaluation: &mut PolicyEvaluation<'_>, policy: &Value) -> Option<PolicyDenial> {
    for annotation in policy["spec"]["auditAnnotations"].as_array().into_iter().flatten() {
        let text = annotation["valueExpression"].as_str().unwrap_or_default();
        match evaluation.evaluate(text) {
            Ok(value) if value.as_text().is_some() || value.is_null() => {}
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
