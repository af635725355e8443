//! Decides whether to call a webhook, calls it, and distinguishes refusals from failures.

use std::sync::Arc;

use homeostat_api::convert;
use homeostat_api::resource::Resource;
use homeostat_api::schema::CelData;
use homeostat_api::status::Status;
use serde_json::{Value, json};

use super::admission_review::review;
use super::response::WebhookResponse;
use crate::admission::AdmissionRequest;
use crate::admission::compiled_expressions::failure_text;
use crate::admission::request_matching::{matched_resource, namespace_matches, object_matches};
use crate::webhook_client::{CallFailure, WebhookCall};

/// The timeout of a webhook that specifies none.
const TIMEOUT_S: u64 = 10;
/// The maximum total cost of one webhook's match conditions, as in Kubernetes.
const CONDITIONS_COST_MAX: u64 = 2_500_000;

/// A webhook.
pub(super) struct Webhook {
    /// The name of its configuration, and its index in it.
    pub(super) id: String,
    pub(super) spec: Value,
}

impl Webhook {
    pub(super) fn name(&self) -> &str {
        self.spec["name"].as_str().unwrap_or_default()
    }
}

/// The content of a webhook call: the objects, in the version that its rules match.
pub(super) struct Invocation {
    pub(super) resource: Arc<Resource>,
    pub(super) object: Value,
    pub(super) old: Option<Value>,
}

/// Converts an object from one version to another. Bodies that are not objects of the resource (a Scale, a Binding)
/// stay as they are.
pub(in crate::admission) async fn convert_between(
    request: &AdmissionRequest<'_>,
    from: &Resource,
    to: &Resource,
    object: &Value,
) -> Result<Value, Status> {
    let is_same = (&from.group, &from.version) == (&to.group, &to.version);
    if is_same || object["kind"] != *from.kind || object["apiVersion"] != *from.api_version() {
        return Ok(object.clone());
    }
    if from.custom().is_some_and(|custom| custom.conversion.is_some()) {
        let conversions = &request.backend.conversions;
        let converted = conversions.object(from, &to.version, object.clone(), request.slot).await;
        return converted.map_err(|status| Status::internal(&status.message));
    }
    let stored = serde_json::from_slice(&convert::encode(from, object).bytes).expect("our own JSON");
    Ok(convert::to_version(to, stored))
}

/// Why a webhook did not allow a request.
pub(super) enum WebhookFailure {
    /// It refused, or could not be called at all: the request fails.
    Refused(Box<Status>),
    /// The call failed, or its response makes no sense: the failure policy decides.
    Failed(String),
}

impl WebhookFailure {
    pub(super) fn refused(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }

    /// Applies the failure policy.
    pub(super) fn or_ignored(self, webhook: &Webhook) -> Result<(), Status> {
        match self {
            Self::Refused(status) => Err(*status),
            Self::Failed(why) if webhook.spec["failurePolicy"] == "Ignore" => {
                tracing::warn!(webhook = webhook.name(), %why, "failed to call a webhook that may be ignored");
                Ok(())
            }
            Self::Failed(why) => {
                Err(Status::internal(&format!("failed calling webhook {:?}: {why}", webhook.name())))
            }
        }
    }
}

/// Returns the call to send to a webhook; `None` if it is not interested.
pub(super) async fn invocation(
    request: &AdmissionRequest<'_>,
    webhook: &Webhook,
    object: &Value,
) -> Result<Option<Invocation>, Status> {
    let spec = &webhook.spec;
    let Some(resource) = matched_resource(request, &spec["rules"], &spec["matchPolicy"]) else {
        return Ok(None);
    };
    if !namespace_matches(request, &spec["namespaceSelector"], object)?
        || !object_matches(request, &spec["objectSelector"], object)?
    {
        return Ok(None);
    }
    let own = request.resource;
    let shown = convert_between(request, own, &resource, object).await?;
    let old = match request.old {
        Some(old) => Some(convert_between(request, own, &resource, old).await?),
        None => None,
    };
    let invocation = Invocation { resource, object: shown, old };
    let is_asked = conditions_match(request, webhook, &invocation, object)?;
    Ok(is_asked.then_some(invocation))
}

/// Evaluates the match conditions: all must hold. If none is false but one fails, the failure policy decides.
fn conditions_match(
    request: &AdmissionRequest<'_>,
    webhook: &Webhook,
    invocation: &Invocation,
    object: &Value,
) -> Result<bool, Status> {
    let conditions = webhook.spec["matchConditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if conditions.is_empty() {
        return Ok(true);
    }
    let review = review(request, invocation, object, ("", "v1"));
    let part = |name: &str| CelData::from_json(&review["request"][name]);
    let mut variables = vec![
        ("object", part("object")),
        ("oldObject", part("oldObject")),
        ("request", CelData::from_json(&described(&review["request"]))),
    ];
    variables.extend(request.authorizer_variables(object));
    let (mut budget, mut errors) = (CONDITIONS_COST_MAX, Vec::new());
    for condition in conditions {
        let text = condition["expression"].as_str().unwrap_or_default();
        let value = request.admission.expressions().evaluate(text, &variables, request, &mut budget);
        match value.map(|value| value.as_bool()) {
            Ok(Some(false)) => return Ok(false),
            Ok(Some(true)) => {}
            Ok(None) => errors.push("cel expression must evaluate to a bool".to_owned()),
            Err(failure) => errors.push(failure_text(text, &failure)),
        }
    }
    if errors.is_empty() {
        return Ok(true);
    }
    if webhook.spec["failurePolicy"] == "Ignore" {
        return Ok(false);
    }
    let why = if let [one] = &*errors { one.clone() } else { format!("[{}]", errors.join(", ")) };
    Err(Status::forbidden(&request.resource.about(request.name), &why))
}

/// Returns the part of a request that expressions see: everything except the objects.
pub(in crate::admission) fn described(request: &Value) -> Value {
    let mut described = request.clone();
    if let Some(fields) = described.as_object_mut() {
        for name in ["object", "oldObject", "uid"] {
            fields.remove(name);
        }
    }
    described
}

/// Calls a webhook. Its warnings reach the client regardless of the response.
pub(super) async fn ask(
    request: &AdmissionRequest<'_>,
    webhook: &Webhook,
    invocation: &Invocation,
    object: &Value,
    is_mutating: bool,
) -> Result<WebhookResponse, WebhookFailure> {
    let spec = &webhook.spec;
    if request.is_dry_run && !matches!(spec["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")) {
        let why = format!("admission webhook {:?} does not support dry run", webhook.name());
        return Err(WebhookFailure::refused(Status::bad_request(why)));
    }
    let versions = spec["admissionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let Some(version) = versions.into_iter().find(|one| matches!(*one, "v1" | "v1beta1")) else {
        let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(WebhookFailure::Failed(why.to_owned()));
    };
    let uid = homeostat_core::Uid::random(&request.backend.entropy).as_str().to_owned();
    let body = review(request, invocation, object, (&uid, version)).to_string();
    let question = WebhookCall {
        id: &webhook.id,
        name: webhook.name(),
        config: &spec["clientConfig"],
        timeout_s: spec["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_S),
        user_agent: "kube-apiserver-admission",
        body,
        slot: request.slot.cloned(),
    };
    let answer = request.backend.webhooks.ask(question).await.map_err(|failure| match failure {
        CallFailure::Crowded(status) => WebhookFailure::Refused(status),
        CallFailure::Failed(why) => WebhookFailure::Failed(format!("failed to call webhook: {why}")),
    })?;
    let response = WebhookResponse::parse(&answer, (&uid, version), is_mutating)
        .map_err(|why| WebhookFailure::Failed(format!("received invalid webhook response: {why}")))?;
    response.warnings.iter().for_each(|warning| request.warn(warning.clone()));
    for (key, value) in &response.audit_annotations {
        request.annotate(format!("{}/{key}", webhook.name()), value.clone());
    }
    match &response.refusal {
        Some(result) => Err(WebhookFailure::refused(result.denial(webhook.name()))),
        None => Ok(response),
    }
}

/// Returns a group, version and kind or resource in the form that reviews use.
pub(super) fn type_of(resource: &Resource, field: &str, name: &str) -> Value {
    json!({"group": resource.group, "version": resource.version, field: name})
}
