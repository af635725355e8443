//! Calls admission: the two stages of a write, and the one of everything else that plugins are asked about (deletions,
//! connections, bindings, evictions).
//!
//! `old` is the stored object, `None` for a new one. A Scale is admitted as a Scale, not as the object it belongs to.

use homeostat_api::kinds::subresource::scale_of;
use homeostat_api::status::Status;
use serde_json::Value;

use crate::admission::{AdmissionRequest, Operation, ReinvocationState, RequestOptions};
use crate::backend::CommitStep;
use crate::verbs::Call;
use crate::verbs::options::WriteOptions;

/// Lets admission change or refuse the object. A new object has no uid yet, and no name if one is to be generated.
pub(super) async fn mutate(
    call: &Call,
    options: &WriteOptions,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    if is_admitted_before(call) {
        return Ok(());
    }
    if call.path.subresource == "scale" {
        // Plugins see the Scale; nobody changes one.
        let old = old.map(|old| shown_scale(call, old));
        let request = write_request(call, options, old.as_ref());
        return call.admission.mutate(&request, &mut shown_scale(call, object)).await;
    }
    call.admission.mutate(&write_request(call, options, old), object).await
}

/// Lets admission refuse the object as it will be stored.
pub(super) async fn validate(
    call: &Call,
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
pub(super) fn charge_quotas(
    call: &Call,
    options: &WriteOptions,
    object: &Value,
    old: Option<&Value>,
) -> Result<Vec<CommitStep>, Status> {
    if is_admitted_before(call) || call.path.subresource == "scale" {
        return Ok(Vec::new());
    }
    call.admission.charge_quotas(&write_request(call, options, old), object)
}

/// Returns the Scale of an object; null if it has none, which is refused elsewhere.
fn shown_scale(call: &Call, object: &Value) -> Value {
    scale_of(&call.resource, object).unwrap_or_default()
}

/// Returns whether the body was admitted as a document of its own: a binding changes the Pod, and is not a Pod.
fn is_admitted_before(call: &Call) -> bool {
    call.path.subresource == "binding"
}

fn write_request<'a>(call: &'a Call, options: &WriteOptions, old: Option<&'a Value>) -> AdmissionRequest<'a> {
    AdmissionRequest {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        old,
        is_dry_run: options.is_dry_run,
        ..request(call, &call.path.name)
    }
}

fn request<'a>(call: &'a Call, name: &'a str) -> AdmissionRequest<'a> {
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

/// Lets admission change or refuse a document that is not stored: a binding, an eviction, the options of a connection.
pub(in crate::verbs) async fn admit_document(
    call: &Call,
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
    call: &Call,
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
