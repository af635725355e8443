//! Collects garbage: deletes or orphans dependents, as requested by the deletion of their owner.
//!
//! For a dependent, each owner is solid (it exists), dangling (it is gone) or waiting (it is being deleted after its
//! dependents). A solid owner keeps the dependent alive. Without one, the dependent is deleted with the propagation
//! that its own finalizers request.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::status::Status;
use homeostat_core::Key;
use serde_json::Value;

use super::storage_in_use;
use crate::backend::{Backend, key_of};
use crate::background_queue::BackgroundNotice;
use crate::registry::ResourceTable;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::verbs::{DeleteOptions, FOREGROUND, ORPHAN, PropagationPolicy, remove};
use crate::write_history::ServerTask;

/// Reconciles an object that has owners or is marked for deletion.
pub(super) async fn reconcile(backend: &Backend, key: &Key) -> Result<(), Status> {
    let Some(object) = load(backend, key) else { return Ok(()) };
    if meta::is_deleting(&object) {
        if meta::has_finalizer(&object, ORPHAN) {
            return orphan_dependents(backend, key, meta::uid(&object)).await;
        }
        if meta::has_finalizer(&object, FOREGROUND) {
            return wait_for_dependents(backend, key, meta::uid(&object)).await;
        }
        return storage_in_use::reconcile(backend, key, &object).await;
    }
    decide_dependent(backend, key, &object).await
}

/// Leaves notices for everything that depended on an object that is gone or has left its owner.
pub(super) fn notify_dependents(backend: &Backend, uid: &str) {
    for key in backend.notices.dependents(uid) {
        backend.notices.leave(BackgroundNotice::Object(key));
    }
    // The owner may have been waiting for the dependent that left.
    backend.notices.leave_waiting_owner(uid);
}

fn load(backend: &Backend, key: &Key) -> Option<Value> {
    backend.store.snapshot().get(key).map(|entry| encode::parse_entry(entry))
}

/// Removes the owner from its dependents, then releases the owner.
async fn orphan_dependents(backend: &Backend, key: &Key, uid: &str) -> Result<(), Status> {
    for dependent in backend.notices.dependents(uid) {
        drop_owners(backend, &dependent, &[uid.to_owned()]).await?;
    }
    remove_finalizer(backend, key, ORPHAN).await
}

/// Releases an owner that is deleted after its dependents, once no blocking dependent is left.
async fn wait_for_dependents(backend: &Backend, key: &Key, uid: &str) -> Result<(), Status> {
    backend.notices.set_waiting_owner(uid, Some(key));
    let mut is_blocked = false;
    for dependent in backend.notices.dependents(uid) {
        let Some(object) = load(backend, &dependent) else { continue };
        if !refers_to(&object, uid) {
            continue;
        }
        is_blocked |= blocks_owner(&object, uid);
        if !meta::is_deleting(&object) {
            backend.notices.leave(BackgroundNotice::Object(dependent));
        }
    }
    if is_blocked {
        return Ok(());
    }
    backend.notices.set_waiting_owner(uid, None);
    remove_finalizer(backend, key, FOREGROUND).await
}

fn owner_references(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn refers_to(object: &Value, uid: &str) -> bool {
    owner_references(object).any(|owner| owner["uid"] == uid)
}

fn blocks_owner(object: &Value, uid: &str) -> bool {
    owner_references(object).any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
}

/// The state of an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    Solid,
    Dangling,
    Waiting,
}

/// Decides what happens to a dependent.
async fn decide_dependent(backend: &Backend, key: &Key, object: &Value) -> Result<(), Status> {
    let table = backend.registry.table();
    let mut lookup = OwnerLookup { backend, table: &table, found: HashMap::new() };
    let mut judged = Vec::new();
    for owner in owner_references(object) {
        judged.push((owner, lookup.state(key, owner)));
        tokio::task::consume_budget().await;
    }
    if judged.is_empty() {
        return Ok(());
    }
    let of = |state: OwnerState| {
        judged
            .iter()
            .filter(move |(_, one)| *one == state)
            .map(|(owner, _)| text_field(owner, "uid").to_owned())
    };
    if judged.iter().any(|(_, state)| *state == OwnerState::Solid) {
        let gone = of(OwnerState::Dangling).chain(of(OwnerState::Waiting)).collect::<Vec<_>>();
        return if gone.is_empty() { Ok(()) } else { drop_owners(backend, key, &gone).await };
    }
    let Some(resource) = resource_of(&table, key) else { return Ok(()) };
    let is_waited_for = judged.iter().any(|(_, state)| *state == OwnerState::Waiting);
    let has_dependents = !backend.notices.dependents(meta::uid(object)).is_empty();
    let policy = if is_waited_for && has_dependents {
        unblock_cycle(backend, key, object).await?;
        PropagationPolicy::Foreground
    } else if meta::has_finalizer(object, ORPHAN) {
        PropagationPolicy::Orphan
    } else if meta::has_finalizer(object, FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    let options = DeleteOptions {
        policy: Some(policy),
        uid: Some(meta::uid(object).into()),
        ..DeleteOptions::default()
    };
    match remove((backend, ServerTask::GarbageCollector), &resource, (key.namespace(), key.name()), &options)
        .await
    {
        Ok(_) => Ok(()),
        Err(status) if matches!(status.code, 404 | 409) => Ok(()),
        Err(status) => Err(status),
    }
}

/// Breaks a cycle of owners that wait for each other, by making this one stop blocking.
async fn unblock_cycle(backend: &Backend, key: &Key, object: &Value) -> Result<(), Status> {
    let is_cycle = backend.notices.dependents(meta::uid(object)).iter().any(|dependent| {
        load(backend, dependent)
            .is_some_and(|one| meta::is_deleting(&one) && meta::has_finalizer(&one, FOREGROUND))
    });
    if !is_cycle {
        return Ok(());
    }
    let table = backend.registry.table();
    let Some(resource) = resource_of(&table, key) else { return Ok(()) };
    update_stored_object((backend, ServerTask::GarbageCollector), &resource, key, |object| {
        let owners = object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten();
        for owner in owners {
            if let Some(owner) = owner.as_object_mut() {
                owner.remove("blockOwnerDeletion");
            }
        }
    })
    .await?;
    for owner in owner_references(object) {
        backend.notices.leave_waiting_owner(text_field(owner, "uid"));
    }
    Ok(())
}

/// An object that owner references name: its uid, and whether it waits for its dependents.
struct ReferencedOwner {
    uid: String,
    is_waiting: bool,
}

impl ReferencedOwner {
    fn load(backend: &Backend, key: &Key) -> Option<Self> {
        let object = load(backend, key)?;
        let is_waiting = meta::is_deleting(&object) && meta::has_finalizer(&object, FOREGROUND);
        Some(Self { uid: meta::uid(&object).to_owned(), is_waiting })
    }
}

/// Looks up owners. Reads each object once, no matter how many references name it: objects may be large, and
/// references numerous.
struct OwnerLookup<'a> {
    backend: &'a Backend,
    table: &'a ResourceTable,
    found: HashMap<Key, Option<ReferencedOwner>>,
}

impl OwnerLookup<'_> {
    /// Returns the state of one of the dependent's owners.
    fn state(&mut self, dependent: &Key, owner: &Value) -> OwnerState {
        let (group, version) = match text_field(owner, "apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text_field(owner, "apiVersion")),
        };
        // A kind that is not served in this version cannot be looked up, so nothing is decided about its objects.
        let Some(resource) = self.table.by_kind(group, version, text_field(owner, "kind")) else {
            return OwnerState::Solid;
        };
        if resource.namespaced && dependent.namespace().is_empty() {
            return OwnerState::Solid;
        }
        let key = key_of(resource, dependent.namespace(), text_field(owner, "name"));
        let backend = self.backend;
        match self.found.entry(key).or_insert_with_key(|key| ReferencedOwner::load(backend, key)) {
            Some(named) if named.uid != text_field(owner, "uid") => OwnerState::Dangling,
            Some(named) if named.is_waiting => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
            None => OwnerState::Dangling,
        }
    }
}

fn text_field<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// Returns a row of the storage that holds the object.
fn resource_of(table: &ResourceTable, key: &Key) -> Option<Arc<Resource>> {
    table.by_key(key).cloned()
}

async fn drop_owners(backend: &Backend, key: &Key, uids: &[String]) -> Result<(), Status> {
    let uids = uids.iter().map(String::as_str).collect::<HashSet<_>>();
    let table = backend.registry.table();
    let Some(resource) = resource_of(&table, key) else { return Ok(()) };
    update_stored_object((backend, ServerTask::GarbageCollector), &resource, key, |object| {
        let metadata = meta::metadata(object);
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|owner| !uids.contains(text_field(owner, "uid")));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    })
    .await
}

/// Removes a finalizer; the object is deleted if it was the last one.
pub(super) async fn remove_finalizer(backend: &Backend, key: &Key, finalizer: &str) -> Result<(), Status> {
    let table = backend.registry.table();
    let Some(resource) = resource_of(&table, key) else { return Ok(()) };
    update_stored_object((backend, ServerTask::GarbageCollector), &resource, key, |object| {
        let left = meta::finalizers(object).filter(|one| *one != finalizer).map(Into::into).collect();
        meta::set_finalizers(object, left);
    })
    .await
}
