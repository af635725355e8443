//! Calls admission: the two stages for a write, and the single stage for everything else that plugins review
//! (deletions, connections, bindings, evictions).
//!
//! `old` is the stored object, `None` for a new one. A Scale is admitted as a Scale, not as the object it belongs to.

use homeostat_api::kinds::subresource::scale_of;
use homeostat_api::status::Status;
use serde_json::Value;

use crate::admission::{AdmissionRequest, Operation, ReinvocationState, RequestOptions};
use crate::backend::CommitStep;
use crate::verbs::AuthorizedRequest;
use crate::verbs::options::WriteOptions;

/// Lets admission change or refuse the object. A new object does not have a uid yet, nor a name if one will be
/// generated.
pub(super) async fn mutate(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if is_admitted_before(call) {
        return Ok(());
    }
    if call.path.subresource == "scale" {
        // Plugins see the Scale, but their changes to it have no effect.
        let old = old.map(|old| shown_scale(call, old));
        let request = write_request(call, options, old.as_ref());
        return call.admission.mutate(&request, &mut shown_scale(call, object)).await;
    }
    call.admission.mutate(&write_request(call, options, old), object).await
}

/// Lets admission refuse the object as it will be stored.
pub(super) async fn validate(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    object: &Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if is_admitted_before(call) {
        return Ok(());
    }
    if call.path.subresource == "scale" {
        let old = old.map(|old| shown_scale(call, old));
        let request = write_request(call, options, old.as_ref());
        return call.admission.validate(&request, &shown_scale(call, object)).await;
    }
    call.admission.validate(&write_request(call, options, old), object).await
}

/// Returns the steps that charge a write to the quotas of its namespace.
pub(super) async fn charge_quotas(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    object: &Value,
    old: Option<&Value>,
) -> Result<Vec<CommitStep>, Status> {
    if is_admitted_before(call) || call.path.subresource == "scale" {
        return Ok(Vec::new());
    }
    call.admission.charge_quotas(&write_request(call, options, old), object).await
}

/// Returns the Scale of an object; null if it has none, which is refused elsewhere.
fn shown_scale(call: &AuthorizedRequest, object: &Value) -> Value {
    scale_of(&call.resource, object).unwrap_or_default()
}

/// Returns whether the body was already admitted as a separate document: a binding changes the Pod, but is not a Pod.
fn is_admitted_before(call: &AuthorizedRequest) -> bool {
    call.path.subresource == "binding"
}

fn write_request<'a>(
    call: &'a AuthorizedRequest,
    options: &WriteOptions,
    old: Option<&'a Value>,
) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        old,
        is_dry_run: options.is_dry_run,
        ..request(call, &call.path.name)
    }
}

fn request<'a>(call: &'a AuthorizedRequest, name: &'a str) -> AdmissionRequest<'a> {
    AdmissionRequest {
        backend: &call.backend,
        admission: &call.admission,
        resource: &call.resource,
        subresource: &call.path.subresource,
        operation: Operation::Create,
        namespace: if call.resource.namespaced { &call.path.namespace } else { "" },
        name,
        old: None,
        user: &call.who,
        is_dry_run: false,
        options: RequestOptions::Write(&call.query),
        warnings: &call.warnings,
        slot: call.slot.as_ref(),
        state: ReinvocationState::default(),
    }
}

/// Lets admission change or refuse a document that is not stored: a binding, an eviction, the options of a
/// connection.
pub(in crate::verbs) async fn admit_document(
    call: &AuthorizedRequest,
    operation: Operation,
    document: &mut Value,
    is_dry_run: bool,
) -> Result<(), Status> {
    let request = AdmissionRequest { operation, is_dry_run, ..request(call, &call.path.name) };
    call.admission.mutate(&request, document).await?;
    call.admission.validate(&request, document).await
}

/// Lets admission refuse the deletion of an object.
pub(in crate::verbs) async fn admit_deletion(
    call: &AuthorizedRequest,
    name: &str,
    old: &Value,
    options: &Value,
) -> Result<(), Status> {
    let request = AdmissionRequest {
        operation: Operation::Delete,
        old: Some(old),
        is_dry_run: options["dryRun"].as_array().is_some_and(|all| !all.is_empty()),
        options: RequestOptions::Delete(options),
        ..request(call, name)
    };
    call.admission.mutate(&request, &mut Value::Null).await?;
    call.admission.validate(&request, &Value::Null).await
}
