//! Creates the `AdmissionReview` that is sent to a webhook.

use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::object::meta;
use serde_json::{Value, json};

use super::dispatch::{Invocation, type_of};
use crate::admission::request::is_kind;
use crate::admission::{AdmissionRequest, Operation, RequestOptions};

/// Returns the review of a request, in the version that the webhook accepts.
pub(super) fn review(
    request: &AdmissionRequest<'_>,
    invocation: &Invocation,
    object: &Value,
    (uid, version): (&str, &str),
) -> Value {
    let mut asked = describe(request, object);
    let (kind, resource) = (&invocation.resource, &invocation.resource);
    asked["uid"] = uid.into();
    let kind_name = body_kind(request, &kind.kind);
    asked["kind"] = match body_type(request) {
        Some(body) => body,
        None => type_of(kind, "kind", kind_name),
    };
    asked["resource"] = type_of(resource, "resource", &resource.plural);
    if !object.is_null() {
        asked["object"] = invocation.object.clone();
    }
    if let Some(old) = &invocation.old {
        asked["oldObject"] = old.clone();
    }
    json!({"kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": asked})
}

/// Returns the facts of a request that are the same for every webhook.
pub(in crate::admission) fn describe(request: &AdmissionRequest<'_>, object: &Value) -> Value {
    let own = request.resource;
    let name = if request.name.is_empty() { meta::name(object) } else { request.name };
    // As in Kubernetes, a Namespace belongs to itself.
    let namespace = if is_kind(own, &NAMESPACE) { name } else { request.namespace };
    let kind = body_type(request).unwrap_or_else(|| type_of(own, "kind", body_kind(request, &own.kind)));
    let resource = type_of(own, "resource", &own.plural);
    let mut user = json!({"username": request.user.name, "groups": request.user.groups});
    if !request.user.uid.is_empty() {
        user["uid"] = request.user.uid.clone().into();
    }
    if !request.user.extra.is_empty() {
        user["extra"] = json!(request.user.extra);
    }
    let mut asked = json!({"kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "operation": request.operation.name(), "userInfo": user, "object": null, "oldObject": null,
        "dryRun": request.is_dry_run, "options": options(request)});
    let optional = [
        ("name", name),
        ("namespace", namespace),
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
    ];
    for (field, text) in optional.into_iter().filter(|(_, text)| !text.is_empty()) {
        asked[field] = text.into();
    }
    asked
}

fn body_kind<'a>(request: &AdmissionRequest<'a>, kind: &'a str) -> &'a str {
    let part = request.resource.subresource(request.subresource);
    part.map_or(kind, |part| if part.kind.is_empty() { kind } else { &part.kind })
}

/// Returns the type of the body of a subresource, if it has its own.
fn body_type(request: &AdmissionRequest<'_>) -> Option<Value> {
    let part = request.resource.subresource(request.subresource)?;
    let is_own = part.version.is_empty();
    (!is_own).then(|| json!({"group": part.group, "version": part.version, "kind": part.kind}))
}

fn options(request: &AdmissionRequest<'_>) -> Value {
    let kind = match request.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = match request.options {
        RequestOptions::Delete(sent) if sent.is_object() => sent.clone(),
        _ => json!({}),
    };
    options["kind"] = kind.into();
    options["apiVersion"] = "meta.k8s.io/v1".into();
    if let RequestOptions::Write(query) = request.options {
        for name in ["fieldManager", "fieldValidation"] {
            if let Some(text) = query.value(name).filter(|text| !text.is_empty()) {
                options[name] = text.into();
            }
        }
        if request.is_dry_run {
            options["dryRun"] = json!(["All"]);
        }
    }
    options
}
