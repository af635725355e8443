//! Kubernetes `Status` responses, one constructor per row of the API's error table.
//!
//! **Invariant:** every error that the server returns is created here, so code, reason, message and details agree
//! everywhere.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::field;
use crate::ordered::{FieldOrder, OrderedJson};

/// The maximum length of a message, because Kubernetes repeats whole objects in some messages: twice the limit for all
/// errors of one object.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// An error response, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason; empty when Kubernetes gives none.
    pub reason: Cow<'static, str>,
    /// Message for people.
    pub message: String,
    /// The object or resource it is about.
    pub details: Option<Details>,
    /// A new continue token that works, for an expired list.
    pub next: Option<String>,
    /// Whether it is sent as plain text, as for paths outside the API.
    pub is_plain: bool,
    /// Additional warnings: unknown fields in an object that is rejected for another reason.
    pub warnings: Vec<String>,
}

/// The object or resource that an error is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Object name.
    pub name: String,
    /// API group, empty for core.
    pub group: String,
    /// Plural resource, or the Kind for invalid objects.
    pub kind: String,
    /// Object uid.
    pub uid: String,
    /// The individual causes.
    pub causes: Vec<Cause>,
    /// Seconds after which to try again; zero if not given.
    pub retry_after_s: u32,
}

/// One cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// Machine-readable reason.
    pub reason: String,
    /// Message for people.
    pub message: String,
    /// The field.
    pub field: String,
}

/// The name of a resource in messages: plural and group.
#[derive(Clone, Copy, Debug)]
pub struct ResourceName<'a> {
    /// Group, empty for core.
    pub group: &'a str,
    /// Plural resource.
    pub resource: &'a str,
    /// Object name, empty when there is none.
    pub name: &'a str,
}

impl ResourceName<'_> {
    /// Returns `deployments.apps`, or `pods` in the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.resource.into() } else { format!("{}.{}", self.resource, self.group) }
    }

    fn details(&self) -> Details {
        Details {
            name: self.name.into(),
            group: self.group.into(),
            kind: self.resource.into(),
            ..Details::default()
        }
    }
}

/// The fields of a Status in Go's order, which clients print and tests compare.
static ORDER: FieldOrder = FieldOrder {
    names: &["kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"],
    inside: &[("details", &DETAILS)],
    below: Some(&METADATA),
};
static DETAILS: FieldOrder = FieldOrder {
    names: &["name", "group", "kind", "uid", "causes", "retryAfterSeconds"],
    inside: &[("causes", &CAUSE)],
    below: None,
};
static CAUSE: FieldOrder = FieldOrder { names: &["reason", "message", "field"], inside: &[], below: None };
static METADATA: FieldOrder =
    FieldOrder { names: &["resourceVersion", "continue"], inside: &[], below: None };

/// Returns a Status that serializes in Go's order; `None` if the value is not a Status.
pub(crate) fn ordered(value: &Value) -> Option<OrderedJson<'_>> {
    (value["kind"] == "Status" && value["apiVersion"] == "v1").then_some(OrderedJson(value, &ORDER))
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let (mut message, warnings) = (message.into(), Vec::new());
        field::cut_text(&mut message, MESSAGE_BYTES_MAX);
        Self { code, reason: reason.into(), message, details: None, next: None, is_plain: false, warnings }
    }

    fn about(mut self, about: &ResourceName<'_>) -> Self {
        self.details = Some(about.details());
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn caused(mut self, reason: &str, message: impl Into<String>, field: &str) -> Self {
        let cause = Cause { reason: reason.into(), message: message.into(), field: field.into() };
        self.details.get_or_insert_default().causes.push(cause);
        self
    }

    /// Adds warnings.
    #[must_use]
    pub fn warned(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Sets when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.get_or_insert_default().retry_after_s = seconds;
        self
    }

    /// 404: the object does not exist.
    pub fn not_found(about: &ResourceName<'_>) -> Self {
        Self::new(404, "NotFound", format!("{} {:?} not found", about.qualified(), about.name)).about(about)
    }

    /// 404: no such resource is served.
    pub fn no_such_resource() -> Self {
        let mut status = Self::new(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(Details::default());
        status
    }

    /// 404: no such path; also used for groups that are not served.
    pub fn no_such_path() -> Self {
        let mut status = Self::new(404, "NotFound", "404 page not found\n");
        status.is_plain = true;
        status
    }

    /// 400: the path has invalid percent escapes.
    pub fn broken_path() -> Self {
        let mut status = Self::new(400, "BadRequest", "400 Bad Request");
        status.is_plain = true;
        status
    }

    /// 409: the object already exists.
    pub fn already_exists(about: &ResourceName<'_>) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {:?} already exists", about.qualified(), about.name))
            .about(about)
    }

    /// 409: the object changed since it was read.
    pub fn conflict(about: &ResourceName<'_>, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {:?}: {why}", about.qualified(), about.name);
        Self::new(409, "Conflict", message).about(about)
    }

    /// 409: other managers own fields of an applied configuration.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        let mut status = Self::new(409, "Conflict", message);
        status.details = Some(Details { causes, ..Details::default() });
        status
    }

    /// 409: the object changed since it was read, with the usual message.
    pub fn modified(about: &ResourceName<'_>) -> Self {
        Self::conflict(
            about,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 422: fields of the object are invalid. `kind` is the Kind, not the resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &field::Errors) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        // The message names each error once; the causes repeat errors that were found twice.
        let mut seen = HashSet::new();
        let mut listed = errors
            .iter()
            .map(ToString::to_string)
            .filter(|text| seen.insert(text.clone()))
            .collect::<Vec<_>>();
        if errors.left_out() > 0 {
            listed.push(format!("and {} more", errors.left_out()));
        }
        let listed = if let [one] = &*listed { one.clone() } else { format!("[{}]", listed.join(", ")) };
        let causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.kind.reason().into(),
                message: error.body.clone(),
                field: error.field.clone(),
            })
            .collect();
        let mut status = Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {listed}"));
        status.details = Some(Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes,
            ..Details::default()
        });
        status
    }

    /// 422: the patch could not be applied. Kubernetes gives no further details.
    pub fn unprocessable() -> Self {
        let mut status =
            Self::new(422, "Invalid", "the server rejected our request due to an error in our request");
        status.details = Some(Details::default());
        status
    }

    /// 422: the request would take more work than one request may cause.
    pub fn too_much_work(why: &str) -> Self {
        let message = format!("the request takes more work than one request may cause: {why}");
        let mut status = Self::new(422, "Invalid", message);
        status.details = Some(Details::default());
        status
    }

    /// 400: the request is malformed.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403: not allowed for this user, or rejected by admission.
    pub fn forbidden(about: &ResourceName<'_>, why: &str) -> Self {
        let subject = match (about.resource, about.name) {
            ("", _) => "forbidden".to_owned(),
            (_, "") => format!("{} is forbidden", about.qualified()),
            (_, name) => format!("{} {name:?} is forbidden", about.qualified()),
        };
        let status = Self::new(403, "Forbidden", format!("{subject}: {why}"));
        if about.resource.is_empty() {
            Self { details: Some(Details::default()), ..status }
        } else {
            status.about(about)
        }
    }

    /// 401: the user is not authenticated.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 410: this revision is no longer in the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 504: the request took too long, or waited for something that did not happen.
    pub fn timeout(message: impl Into<String>) -> Self {
        let mut status = Self::new(504, "Timeout", format!("Timeout: {}", message.into()));
        status.details = Some(Details::default());
        status
    }

    /// 429: the client must slow down.
    pub fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(seconds)
    }

    /// 405: the resource exists, but does not support the method.
    pub fn method_not_allowed() -> Self {
        let mut status = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.details = Some(Details::default());
        status
    }

    /// 405: the custom resource exists, but does not support the verb.
    pub fn not_supported(about: &ResourceName<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", about.qualified());
        Self::new(405, "MethodNotAllowed", message).about(&ResourceName { name: "", ..*about })
    }

    /// 406: no acceptable representation.
    pub fn not_acceptable(accepted: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {accepted}"))
    }

    /// 406: no representation that the router of built-in kinds knows, which has its own message.
    pub fn not_routable(available: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self { details: Some(Details::default()), ..Self::new(406, "NotAcceptable", message) }
    }

    /// 406: the object cannot be returned in the requested form.
    pub fn no_such_form(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 415: no patch type that the router of built-in kinds knows.
    pub fn not_consumable() -> Self {
        let status = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        Self { details: Some(Details::default()), ..status }
    }

    /// 415: the media type of the body is not supported.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 413: the body is too large.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 500: the server failed.
    pub fn internal(message: &str) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}")).caused("", message, "")
    }

    /// 500 without a reason: kube-apiserver's response when an internal error escapes unclassified.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 503: the store rejects writes.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).retry_after(1)
    }

    /// Creates the response with which a webhook or a policy rejects a request, with the code, reason and causes that
    /// it chose.
    pub fn denied(code: u16, reason: String, message: impl Into<String>, details: Option<Details>) -> Self {
        let status = Self::new(code, "", message);
        Self { reason: reason.into(), details, ..status }
    }

    /// Returns the JSON as text.
    pub fn to_text(&self) -> String {
        let object = self.to_json();
        serde_json::to_string(&OrderedJson(&object, &ORDER)).expect("JSON values can be written")
    }

    /// Returns the JSON of the `Status` object.
    pub fn to_json(&self) -> Value {
        let metadata = self.next.as_ref().map_or_else(|| json!({}), |next| json!({ "continue": next }));
        let mut object = Map::new();
        object.insert("kind".into(), "Status".into());
        object.insert("apiVersion".into(), "v1".into());
        object.insert("metadata".into(), metadata);
        object.insert("status".into(), "Failure".into());
        object.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            object.insert("reason".into(), self.reason.as_ref().into());
        }
        if let Some(details) = &self.details {
            object.insert("details".into(), details.to_json());
        }
        object.insert("code".into(), self.code.into());
        Value::Object(object)
    }
}

impl Details {
    /// Returns the JSON of the details; empty fields are left out.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        for (name, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            put_text(&mut object, name, text);
        }
        if !self.causes.is_empty() {
            object.insert("causes".into(), self.causes.iter().map(Cause::to_json).collect());
        }
        if self.retry_after_s > 0 {
            object.insert("retryAfterSeconds".into(), self.retry_after_s.into());
        }
        Value::Object(object)
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut object = Map::new();
        for (name, text) in [("reason", &self.reason), ("message", &self.message), ("field", &self.field)] {
            put_text(&mut object, name, text);
        }
        Value::Object(object)
    }
}

fn put_text(object: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        object.insert(name.into(), text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_is_named_with_its_group() {
        let about = ResourceName { group: "apps", resource: "deployments", name: "web" };
        let status = Status::not_found(&about).to_json();
        assert_eq!(status["message"], r#"deployments.apps "web" not found"#);
        assert_eq!(status["details"], json!({"name": "web", "group": "apps", "kind": "deployments"}));
    }

    #[test]
    fn the_text_is_in_the_order_of_go() {
        let about = ResourceName { group: "apps", resource: "deployments", name: "a" };
        let status = Status::not_found(&about).caused("Why", "what", "where").retry_after(1);
        let text = concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"deployments.apps \"a\" not found","reason":"NotFound","details":{"name":"a","group":"apps","#,
            r#""kind":"deployments","causes":[{"reason":"Why","message":"what","field":"where"}],"retryAfterSeconds":1},"#,
            r#""code":404}"#
        );
        assert_eq!(status.to_text(), text);
    }
}
