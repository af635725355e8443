//! Completes a write: encodes the object once, and commits it if the stored object has not changed.
//!
//! **Invariant:** the same encoding is stored, sent to watches and returned in the response. A dry run stops before the
//! commit. A change that removes the last finalizer of an object that is marked for deletion deletes it.

use std::sync::Arc;

use homeostat_api::kinds::core::resource_quota::RESOURCE_QUOTA;
use homeostat_api::kinds::subresource::scale_of;
use homeostat_api::object::meta;
use homeostat_api::resource::deletion;
use homeostat_api::status::Status;
use homeostat_store::{Entry, Error as StoreError, Op};
use serde_json::Value;

use super::admit::charge_quotas;
use crate::admission::{limit_quotas, limit_roles, namespace_lifecycle};
use crate::backend::{CommitStep, commit_refusal, key_of};
use crate::definition_lifecycle;
use crate::stored::convert;
use crate::stored::encode;
use crate::verbs::options::WriteOptions;
use crate::verbs::{Answer, AuthorizedRequest};

/// Commits a new object; returns `None` if its name is taken.
pub(super) async fn insert(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    object: Value,
) -> Result<Option<Answer>, Status> {
    let key = key_of(&call.resource, &call.path.namespace, meta::name(&object));
    let value = call.stored_value(&object).await?;
    let _alone = limit_quotas(&call.backend, &call.resource, &key, value.bytes.len()).await?;
    let _alone_among_roles = limit_roles(&call.backend, &call.resource, &key, &object).await?;
    loop {
        let mut others = conditions_of_insert(call, meta::name(&object))?;
        others.extend(charge_quotas(call, options, &object, None).await?);
        if call.backend.store.snapshot().get(&key).is_some() {
            return Ok(None);
        }
        if options.is_dry_run {
            return Answer::object(call, 201, &object).map(Some);
        }
        match call.backend.commit_with(key.clone(), None, Op::Put(value.clone()), others).await {
            Ok(committed) => {
                let entry =
                    committed.entries.first().and_then(Option::as_ref).expect("a put leaves an entry");
                call.record_write(None, Some(entry));
                follow_up(call, entry).await?;
                return Answer::entry(call, 201, &call.converted(entry).await?).map(Some);
            }
            Err(StoreError::Conflict { key: other, .. }) if other == key => return Ok(None),
            // The namespace or a quota changed. It is checked again.
            Err(StoreError::Conflict { .. }) => tokio::task::yield_now().await,
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
}

/// Returns the conditions for committing a new object: its namespace must still exist and must not be marked for
/// deletion.
fn conditions_of_insert(call: &AuthorizedRequest, name: &str) -> Result<Vec<CommitStep>, Status> {
    if !call.admission.is_enabled(namespace_lifecycle::NAME) {
        return Ok(Vec::new());
    }
    let (resource, namespace) = (&call.resource, &*call.path.namespace);
    let condition = namespace_lifecycle::check_create(&call.backend, resource, namespace, name)?;
    Ok(condition.into_iter().map(|(key, expect)| CommitStep::check(key, expect)).collect())
}

/// Commits a changed object; returns `None` if another write intervened.
pub(super) async fn replace(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    entry: &Arc<Entry>,
    old: Value,
    mut object: Value,
) -> Result<Option<Answer>, Status> {
    if deletion::may_go(&call.resource, &object) {
        return remove(call, options, entry, object).await;
    }
    let value = call.stored_value(&object).await?;
    if encode::is_same(entry, &value) {
        return answer_entry(call, entry).await.map(Some);
    }
    let _alone = limit_quotas(&call.backend, &call.resource, &entry.key, value.bytes.len()).await?;
    let _alone_among_roles = limit_roles(&call.backend, &call.resource, &entry.key, &object).await?;
    let charges = charge_quotas(call, options, &object, Some(&old)).await?;
    if options.is_dry_run {
        meta::set(&mut object, "resourceVersion", Some(entry.revision.to_string().into()));
        return answer_object(call, &object).map(Some);
    }
    // While the commit waits for the disk, hundreds of others may be waiting too; their objects need not stay in
    // memory.
    drop((old, object));
    match call.backend.commit_with(entry.key.clone(), Some(entry), Op::Put(value), charges).await {
        Ok(committed) => {
            let written = committed.entries.first().and_then(Option::as_ref).expect("a put leaves an entry");
            call.record_write(Some(entry), Some(written));
            follow_up(call, written).await?;
            answer_entry(call, written).await.map(Some)
        }
        Err(StoreError::Conflict { .. }) => Ok(None),
        Err(error) => Err(commit_refusal(&error)),
    }
}

/// Deletes an object that nothing holds any more. The response shows the new object at its old revision.
async fn remove(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    entry: &Arc<Entry>,
    mut object: Value,
) -> Result<Option<Answer>, Status> {
    if !options.is_dry_run {
        match call.backend.commit(entry.key.clone(), Some(entry), Op::Delete).await {
            Ok(_) => call.record_write(Some(entry), None),
            Err(StoreError::Conflict { .. }) => return Ok(None),
            Err(error) => return Err(commit_refusal(&error)),
        }
    }
    meta::set(&mut object, "resourceVersion", Some(entry.revision.to_string().into()));
    answer_object(call, &object).map(Some)
}

/// Does the work that must follow a write before its response is sent: makes a defined kind available to the next
/// request, and schedules the correction of a quota status that a client wrote.
async fn follow_up(call: &AuthorizedRequest, entry: &Entry) -> Result<(), Status> {
    if call.resource.declaration().is_some_and(|kind| kind.defines_kinds) {
        definition_lifecycle::establish(&call.backend, &entry.key).await?;
    }
    if call.path.subresource == "status" && call.resource.storage() == RESOURCE_QUOTA.storage() {
        call.backend.notices.add_quota_count(entry.key.namespace());
    }
    Ok(())
}

/// Responds with a stored object as this endpoint shows it.
async fn answer_entry(call: &AuthorizedRequest, entry: &Arc<Entry>) -> Result<Answer, Status> {
    let entry = &call.converted(entry).await?;
    match &*call.path.subresource {
        "scale" => answer_object(call, &convert::decode_in_version(&call.resource, entry)),
        _ => Answer::entry(call, 200, entry),
    }
}

/// Responds with an object as this endpoint shows it.
fn answer_object(call: &AuthorizedRequest, object: &Value) -> Result<Answer, Status> {
    match &*call.path.subresource {
        "scale" => Answer::object(call, 200, &scale_of(&call.resource, object)?),
        _ => Answer::object(call, 200, object),
    }
}

/// Returns the refusal for a new object whose name is taken.
pub(super) fn already_exists(call: &AuthorizedRequest, name: &str, is_generated: bool) -> Status {
    let mut status = Status::already_exists(&call.resource.about(name));
    let snapshot = call.backend.store.snapshot();
    let taken = snapshot.get(&key_of(&call.resource, &call.path.namespace, name));
    if taken.is_some_and(|entry| meta::is_deleting(&encode::parse_entry(entry))) {
        status.message.insert_str(0, "object is being deleted: ");
    }
    if is_generated {
        status.message.push_str(", the server was not able to generate a unique name for the object");
        status = status.retry_after(1);
    }
    status
}
