//! Implements the review APIs: questions about identities and permissions, which are answered but not stored.
//!
//! **Invariant:** the answers come from the same [`Authorizer`] and [`Authenticator`] that requests pass through, so
//! a review always agrees with what would happen.

use homeostat_api::field::{Error, Errors, FieldPath};
use homeostat_api::kinds::validate::access;
use homeostat_api::status::Status;
use serde_json::{Map, Value, json};

use super::{Authenticator, Authorizer, Identity, RequestAttributes};

const AUTHORIZATION: &str = "authorization.k8s.io";
/// The maximum size of the rules in one response, in bytes. No client reads that many rules of a user, and a user may
/// have hundreds of unread responses.
const RULES_BYTES_MAX: usize = 512 << 10;
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Answers reviews for one caller.
#[derive(Clone, Copy)]
pub struct Reviewer<'a> {
    /// The caller.
    pub who: &'a Identity,
    /// Answers questions about permissions.
    pub authorizer: &'a Authorizer,
    /// Answers questions about tokens.
    pub authenticator: &'a Authenticator,
}

impl Reviewer<'_> {
    /// Answers a review of this kind (`SelfSubjectAccessReview` …) with this body. `namespace` is the one in the
    /// path.
    pub fn review(&self, kind: &str, namespace: &str, mut body: Value) -> Result<Value, Status> {
        // The spec is moved rather than copied: it may be large, and is sent back with the response.
        let spec = body.get_mut("spec").filter(|spec| spec.is_object()).map(Value::take);
        let spec = spec.unwrap_or_else(|| json!({}));
        match kind {
            "SelfSubjectAccessReview" => self.self_access(&body, spec),
            "SubjectAccessReview" => self.access(&body, spec),
            "LocalSubjectAccessReview" => self.local_access(namespace, &body, spec),
            "SelfSubjectRulesReview" => self.rules(&spec),
            "SelfSubjectReview" => Ok(self.myself()),
            "TokenReview" => self.token(spec),
            _ => Err(Status::no_such_resource()),
        }
    }

    fn self_access(&self, body: &Value, spec: Value) -> Result<Value, Status> {
        let mut errors = access(&spec);
        errors.extend(metadata_error(body, &[]));
        refuse_invalid(&errors)?;
        let status = self.verdict(self.who, &spec);
        Ok(review_object("SelfSubjectAccessReview", AUTHORIZATION, json!({}), spec, status))
    }

    fn access(&self, body: &Value, spec: Value) -> Result<Value, Status> {
        let mut errors = access(&spec);
        errors.extend(subject_error(&spec));
        errors.extend(metadata_error(body, &[]));
        refuse_invalid(&errors)?;
        let status = self.verdict(&subject_of_spec(&spec), &spec);
        Ok(review_object("SubjectAccessReview", AUTHORIZATION, json!({}), spec, status))
    }

    fn local_access(&self, namespace: &str, body: &Value, spec: Value) -> Result<Value, Status> {
        let mut errors = access(&spec);
        errors.extend(subject_error(&spec));
        errors.extend(metadata_error(body, &["namespace"]));
        let path = FieldPath::Root;
        if let Some(attributes) = spec.get("resourceAttributes").filter(|value| value.is_object())
            && text_field(attributes, "namespace") != namespace
        {
            let path = path.field("spec.resourceAttributes.namespace");
            errors.push(Error::invalid(
                &path,
                &text_field(attributes, "namespace").into(),
                "must match metadata.namespace",
            ));
        }
        if let Some(attributes) = spec.get("nonResourceAttributes").filter(|value| value.is_object()) {
            let path = path.field("spec.nonResourceAttributes");
            errors.push(Error::invalid(&path, attributes, "disallowed on this kind of request"));
        }
        refuse_invalid(&errors)?;
        let status = self.verdict(&subject_of_spec(&spec), &spec);
        let metadata = json!({"namespace": namespace});
        Ok(review_object("LocalSubjectAccessReview", AUTHORIZATION, metadata, spec, status))
    }

    fn verdict(&self, who: &Identity, spec: &Value) -> Value {
        let what = attributes(spec);
        let decision = self.authorizer.decide(who, &what);
        let is_allowed = decision.is_allowed();
        let reason = match decision {
            super::Decision::Allow(reason) => reason,
            super::Decision::NoOpinion => self.authorizer.describe_missing_roles(who, &what),
        };
        let mut status = json!({"allowed": is_allowed});
        if !reason.is_empty() {
            status["reason"] = reason.into();
        }
        status
    }

    fn rules(&self, spec: &Value) -> Result<Value, Status> {
        let namespace = text_field(spec, "namespace");
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        let rules = self.authorizer.rules_for(self.who, namespace);
        let (mut resource_rules, mut path_rules) = (Vec::new(), Vec::new());
        let mut room = RULES_BYTES_MAX;
        let mut is_incomplete = false;
        for rule in rules.iter().flat_map(|set| set.iter().flat_map(|part| &**part)) {
            let Some(left) = room.checked_sub(rule.bytes()) else {
                is_incomplete = true;
                break;
            };
            room = left;
            if !rule.non_resource_urls.is_empty() {
                path_rules.push(json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}));
            }
            if !rule.resources.is_empty() {
                let mut rule = json!(rule);
                rule.as_object_mut().map(|rule| rule.remove("nonResourceURLs"));
                resource_rules.push(rule);
            }
        }
        let mut status = json!({"resourceRules": resource_rules, "nonResourceRules": path_rules,
            "incomplete": is_incomplete});
        if is_incomplete {
            let why = format!("only the first {RULES_BYTES_MAX} bytes of rules are listed");
            status["evaluationError"] = why.into();
        }
        Ok(review_object("SelfSubjectRulesReview", AUTHORIZATION, json!({}), json!({}), status))
    }

    fn myself(&self) -> Value {
        let now = self.authenticator.now().as_second();
        let now = jiff::Timestamp::from_second(now).expect("the whole seconds of a time are a time");
        json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": now.to_string()}, "status": {"userInfo": user_info(self.who)}})
    }

    fn token(&self, spec: Value) -> Result<Value, Status> {
        let token = text_field(&spec, "token");
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let status = match self.authenticator.accept(token, &text_list_field(&spec, "audiences")) {
            Ok(accepted) => json!({"authenticated": true, "user": user_info(&accepted.identity),
                "audiences": accepted.audiences}),
            Err(error) => json!({"user": {}, "error": error}),
        };
        Ok(review_object("TokenReview", AUTHENTICATION, json!({}), spec, status))
    }
}

fn review_object(kind: &str, group: &str, metadata: Value, spec: Value, status: Value) -> Value {
    let mut answer = json!({"kind": kind, "apiVersion": format!("{group}/v1")});
    answer["metadata"] = metadata;
    answer["spec"] = spec;
    answer["status"] = status;
    answer
}

/// Returns the `UserInfo` of the user, without empty fields.
pub fn user_info(who: &Identity) -> Value {
    let mut info = Map::from_iter([("username".to_owned(), Value::from(&*who.name))]);
    if !who.uid.is_empty() {
        info.insert("uid".into(), (&*who.uid).into());
    }
    if !who.groups.is_empty() {
        info.insert("groups".into(), json!(who.groups));
    }
    if !who.extra.is_empty() {
        info.insert("extra".into(), json!(who.extra));
    }
    Value::Object(info)
}

fn text_field<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn text_list_field(object: &Value, field: &str) -> Vec<String> {
    let list = object.get(field).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(Into::into).collect()
}

fn subject_of_spec(spec: &Value) -> Identity {
    Identity {
        name: text_field(spec, "user").into(),
        uid: text_field(spec, "uid").into(),
        groups: text_list_field(spec, "groups"),
        ..Identity::default()
    }
}

fn attributes(spec: &Value) -> RequestAttributes<'_> {
    if let Some(resource) = spec.get("resourceAttributes").filter(|value| value.is_object()) {
        return RequestAttributes::Resource {
            verb: text_field(resource, "verb"),
            group: text_field(resource, "group"),
            resource: text_field(resource, "resource"),
            subresource: text_field(resource, "subresource"),
            namespace: text_field(resource, "namespace"),
            name: text_field(resource, "name"),
        };
    }
    let path = spec.get("nonResourceAttributes").unwrap_or(&Value::Null);
    RequestAttributes::Path { verb: text_field(path, "verb"), path: text_field(path, "path") }
}

fn subject_error(spec: &Value) -> Option<Error> {
    let is_nobody = text_field(spec, "user").is_empty() && text_list_field(spec, "groups").is_empty();
    let path = FieldPath::Root;
    let path = path.field("spec.user");
    let detail = "at least one of user or group must be specified";
    is_nobody.then(|| Error::invalid(&path, &"".into(), detail).written())
}

fn metadata_error(body: &Value, allowed: &[&str]) -> Option<Error> {
    let metadata = body.get("metadata")?;
    let is_empty = |(field, value): (&String, &Value)| {
        allowed.contains(&&**field) || field == "managedFields" || value.is_null() || value == ""
    };
    if metadata.as_object()?.iter().all(is_empty) {
        return None;
    }
    let detail = if allowed.is_empty() { "must be empty" } else { "must be empty except for namespace" };
    Some(Error::invalid(&FieldPath::Root.field("metadata"), metadata, detail).written())
}

/// Returns the refusal without a kind, as Kubernetes does: clients see `.authorization.k8s.io "" is invalid`.
fn refuse_invalid(errors: &Errors) -> Result<(), Status> {
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(AUTHORIZATION, "", "", errors)) }
}
