//! Checks the response from a webhook, then applies it or turns it into a refusal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use homeostat_api::object::memory::memory_of_json;
use homeostat_api::patch::json::JsonPatch;
use homeostat_api::status::{Cause, Details, Status};
use serde_json::Value;

use super::dispatch::{Invocation, Webhook, convert_between};
use crate::admission::AdmissionRequest;
use crate::normalize_object::normalize_mutated;
use crate::webhook_client::{RESPONSE_MEMORY_MAX, TOO_MANY_PARTS};

/// The maximum number of warnings per response that reach the client, and their maximum length.
const WARNINGS_MAX: usize = 64;
/// The maximum number of audit annotations per response that are logged.
const ANNOTATIONS_MAX: usize = 64;

/// A checked response.
pub(super) struct WebhookResponse {
    pub(super) warnings: Vec<String>,
    pub(super) audit_annotations: Vec<(String, String)>,
    /// Why it refuses; `None` if it does not.
    pub(super) refusal: Option<DenialResult>,
    patch: Option<Vec<u8>>,
}

/// The content of a refusal.
pub(super) struct DenialResult(Value);

impl WebhookResponse {
    /// Checks a response. The errors use Kubernetes' wording.
    pub(super) fn parse(
        answer: &Value,
        (uid, version): (&str, &str),
        is_mutating: bool,
    ) -> Result<Self, String> {
        let response = &answer["response"];
        if !response.is_object() {
            return Err("webhook response was absent".to_owned());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let is_strict = version == "v1";
        if is_strict && text(&response["uid"]) != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
        }
        let (group_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if is_strict && (&*group_version, &*kind) != ("admission.k8s.io/v1", "AdmissionReview") {
            return Err(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group_version}, Kind={kind}"
            ));
        }
        let encoded = text(&response["patch"]);
        let (has_patch, patch_type) = (!encoded.is_empty(), response["patchType"].as_str());
        if is_strict {
            check_patch(has_patch, patch_type, is_mutating)?;
        }
        let patch = (has_patch && is_mutating)
            .then(|| STANDARD.decode(&encoded).map_err(|error| error.to_string()))
            .transpose()?;
        let warnings = response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
        let annotations = annotations.take(ANNOTATIONS_MAX);
        let annotations =
            annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let is_allowed = response["allowed"].as_bool().unwrap_or_default();
        Ok(Self {
            warnings: warnings.take(WARNINGS_MAX).map(ToOwned::to_owned).collect(),
            audit_annotations: annotations.collect(),
            refusal: (!is_allowed).then(|| DenialResult(response["status"].clone())),
            patch,
        })
    }

    /// Applies the patch, if there is one. Returns whether it changed the object.
    pub(super) async fn patch(
        self,
        request: &AdmissionRequest<'_>,
        webhook: &Webhook,
        invocation: Invocation,
        object: &mut Value,
    ) -> Result<bool, Status> {
        let Some(bytes) = self.patch else { return Ok(false) };
        let undecodable = |why: String| {
            let why = format!("received undecodable patch in webhook response: {why}");
            Status::internal(&format!("failed calling webhook {:?}: {why}", webhook.name()))
        };
        if memory_of_json(&bytes) > RESPONSE_MEMORY_MAX {
            return Err(undecodable(TOO_MANY_PARTS.to_owned()));
        }
        let patch = serde_json::from_slice(&bytes).map_err(|error| undecodable(error.to_string()))?;
        let patch = JsonPatch::parse(patch).map_err(|status| undecodable(status.message))?;
        if object.is_null() {
            let why = "attempted to modify the object, which is not supported for this operation";
            return Err(Status::internal(&format!("admission webhook {:?} {why}", webhook.name())));
        }
        let mut shown = invocation.object;
        let [api_version, kind] = ["apiVersion", "kind"].map(|field| shown[field].clone());
        patch.apply(&mut shown).map_err(|status| Status::internal(&status.message))?;
        // A patch cannot change the type of an object.
        if let Some(fields) = shown.as_object_mut() {
            fields.insert("apiVersion".to_owned(), api_version);
            fields.insert("kind".to_owned(), kind);
        }
        let mut changed = convert_between(request, &invocation.resource, request.resource, &shown).await?;
        if request.subresource.is_empty() || changed["kind"] == *request.resource.kind {
            normalize_mutated(request.resource, &mut changed)?;
        }
        let is_changed = changed != *object;
        *object = changed;
        Ok(is_changed)
    }
}

fn check_patch(has_patch: bool, patch_type: Option<&str>, is_mutating: bool) -> Result<(), String> {
    let why = match (is_mutating, has_patch, patch_type) {
        (true, true, None) => "webhook returned response.patch but not response.patchType".to_owned(),
        (true, false, Some(_)) => "webhook returned response.patchType but not response.patch".to_owned(),
        (true, _, Some("")) => "webhook returned invalid response.patchType of \"\"".to_owned(),
        (true, _, Some(other)) if other != "JSONPatch" => format!("unsupported patch type {other:?}"),
        (false, true, _) => "validating webhook may not return response.patch".to_owned(),
        (false, _, Some(_)) => "validating webhook may not return response.patchType".to_owned(),
        _ => return Ok(()),
    };
    Err(why)
}

impl DenialResult {
    /// Returns the refusal that the client gets.
    pub(super) fn denial(&self, webhook: &str) -> Status {
        let text = |field: &str| self.0[field].as_str().unwrap_or_default();
        let denied = format!("admission webhook {webhook:?} denied the request");
        let message = match (text("message"), text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = self.0["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or_default();
        let code = if (400..1000).contains(&code) { code } else { 400 };
        Status::denied(code, text("reason").to_owned(), message, self.details())
    }

    fn details(&self) -> Option<Details> {
        let details = self.0["details"].as_object()?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let causes = details.get("causes").and_then(Value::as_array).into_iter().flatten();
        let cause = |cause: &Value| Cause {
            reason: text(cause.get("reason")),
            message: text(cause.get("message")),
            field: text(cause.get("field")),
        };
        Some(Details {
            name: text(details.get("name")),
            group: text(details.get("group")),
            kind: text(details.get("kind")),
            uid: text(details.get("uid")),
            causes: causes.map(cause).collect(),
            retry_after_s: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_that_make_no_sense_are_told_in_kubernetes_words() {
        let check = |response: Value, is_mutating: bool, expected: &str| {
            let answer =
                json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
            let parsed = WebhookResponse::parse(&answer, ("u", "v1"), is_mutating);
            assert_eq!(parsed.err().unwrap_or_default(), expected);
        };
        check(Value::Null, true, "webhook response was absent");
        check(json!({"uid": "x"}), true, "expected response.uid=\"u\", got \"x\"");
        check(json!({"uid": "u", "allowed": true}), true, "");
        let patch = json!({"uid": "u", "allowed": true, "patch": "W10="});
        check(patch.clone(), true, "webhook returned response.patch but not response.patchType");
        check(patch, false, "validating webhook may not return response.patch");
        let typed = json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "Odd"});
        check(typed, true, "unsupported patch type \"Odd\"");
    }

    /// The seed of the random responses. Any other seed would do.
    const SEED: u64 = 20_261_118;

    #[test]
    fn whatever_a_webhook_answers_only_a_fitting_answer_counts() {
        let entropy = homeostat_core::Entropy::seeded(SEED);
        let (mut allowed, mut refused) = (0, 0);
        for _ in 0..3000 {
            let mut answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {
                "uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch", "warnings": ["w"],
                "auditAnnotations": {"k": "v"}, "status": {"code": 403, "message": "m", "details": {"causes": []}}}});
            crate::random_json_tests::damage(&entropy, &mut answer);
            let Ok(parsed) = WebhookResponse::parse(&answer, ("u", "v1"), true) else { continue };
            let response = &answer["response"];
            assert_eq!(
                (&answer["kind"], &response["uid"]),
                (&json!("AdmissionReview"), &json!("u")),
                "{answer}"
            );
            match &parsed.refusal {
                None => {
                    assert_eq!(response["allowed"], true, "{answer}");
                    allowed += 1;
                }
                Some(result) => {
                    assert!((400..1000).contains(&result.denial("w").code), "{answer}");
                    refused += 1;
                }
            }
            let is_patched = response["patch"].as_str().is_some_and(|text| !text.is_empty());
            assert_eq!(parsed.patch.is_some(), is_patched, "{answer}");
        }
        assert!(allowed > 100 && refused > 20, "the damage leaves too little: {allowed}, {refused}");
    }

    #[test]
    fn a_refusal_has_the_code_and_the_words_of_the_webhook() {
        let check = |status: Value, code: u16, message: &str| {
            let denial = DenialResult(status).denial("w");
            assert_eq!((denial.code, &*denial.message), (code, message));
        };
        check(Value::Null, 400, "admission webhook \"w\" denied the request without explanation");
        check(json!({"code": 200, "reason": "Odd"}), 400, "admission webhook \"w\" denied the request: Odd");
        check(json!({"code": 403, "message": "no"}), 403, "admission webhook \"w\" denied the request: no");
    }
}
