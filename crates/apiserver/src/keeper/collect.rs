//! Garbage collection: dependents go with their owners, or are let go, as the owners' deletion asked.
//!
//! For a dependent, each owner is solid (there), dangling (gone) or waiting (going, and asking its dependents to go
//! first). A solid owner keeps it; otherwise it is deleted in the way its own finalizers ask for.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use homeostat_core::Key;
use serde_json::Value;

use super::notices::Notice;
use super::storage;
use crate::backend::{Backend, key_of};
use crate::object::{encode, meta};
use crate::registry::Table;
use crate::resource::Resource;
use crate::rewrite::rewrite;
use crate::status::Status;
use crate::verbs::{DeleteOptions, FOREGROUND, ORPHAN, Policy, remove};

/// Looks at an object that has owners or is marked for deletion.
pub(super) async fn look_at(backend: &Backend, key: &Key) -> Result<(), Status> {
    let Some(object) = load(backend, key) else { return Ok(()) };
    if meta::is_deleting(&object) {
        if meta::has_finalizer(&object, ORPHAN) {
            return let_go(backend, key, meta::uid(&object)).await;
        }
        if meta::has_finalizer(&object, FOREGROUND) {
            return wait_for_dependents(backend, key, meta::uid(&object)).await;
        }
        return storage::look_at(backend, key, &object).await;
    }
    judge(backend, key, &object).await
}

/// Looks at everything that depends on an object that is gone, or left its owner.
pub(super) fn orphaned(backend: &Backend, uid: &str) {
    for key in backend.notices.dependents(uid) {
        backend.notices.leave(Notice::Object(key));
    }
    // The owner may have waited for the one that left.
    backend.notices.leave_waiting_owner(uid);
}

fn load(backend: &Backend, key: &Key) -> Option<Value> {
    backend.store.snapshot().get(key).map(|entry| encode::decode(entry))
}

/// An owner deleted with its dependents let go: they forget it, then it goes.
async fn let_go(backend: &Backend, key: &Key, uid: &str) -> Result<(), Status> {
    for dependent in backend.notices.dependents(uid) {
        drop_owners(backend, &dependent, &[uid.to_owned()]).await?;
    }
    release(backend, key, ORPHAN).await
}

/// An owner deleted after its dependents: it goes when none of those that block it is left.
async fn wait_for_dependents(backend: &Backend, key: &Key, uid: &str) -> Result<(), Status> {
    backend.notices.set_waiting_owner(uid, Some(key));
    let mut is_blocked = false;
    for dependent in backend.notices.dependents(uid) {
        let Some(object) = load(backend, &dependent) else { continue };
        if !refers_to(&object, uid) {
            continue;
        }
        is_blocked |= blocks(&object, uid);
        if !meta::is_deleting(&object) {
            backend.notices.leave(Notice::Object(dependent));
        }
    }
    if is_blocked {
        return Ok(());
    }
    backend.notices.set_waiting_owner(uid, None);
    release(backend, key, FOREGROUND).await
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

fn refers_to(object: &Value, uid: &str) -> bool {
    owners(object).any(|owner| owner["uid"] == uid)
}

fn blocks(object: &Value, uid: &str) -> bool {
    owners(object).any(|owner| owner["uid"] == uid && owner["blockOwnerDeletion"] == true)
}

/// What an owner reference finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Solid,
    Dangling,
    Waiting,
}

/// Decides what becomes of a dependent.
async fn judge(backend: &Backend, key: &Key, object: &Value) -> Result<(), Status> {
    let table = backend.registry.table();
    let mut lookup = OwnerLookup { backend, table: &table, found: HashMap::new() };
    let mut judged = Vec::new();
    for owner in owners(object) {
        judged.push((owner, lookup.state(key, owner)));
        tokio::task::consume_budget().await;
    }
    if judged.is_empty() {
        return Ok(());
    }
    let of = |state: Owner| {
        judged.iter().filter(move |(_, one)| *one == state).map(|(owner, _)| text(owner, "uid").to_owned())
    };
    if judged.iter().any(|(_, state)| *state == Owner::Solid) {
        let gone = of(Owner::Dangling).chain(of(Owner::Waiting)).collect::<Vec<_>>();
        return if gone.is_empty() { Ok(()) } else { drop_owners(backend, key, &gone).await };
    }
    let Some(resource) = resource_of(&table, key) else { return Ok(()) };
    let is_waited_for = judged.iter().any(|(_, state)| *state == Owner::Waiting);
    let has_dependents = !backend.notices.dependents(meta::uid(object)).is_empty();
    let policy = if is_waited_for && has_dependents {
        unblock_cycle(backend, key, object).await?;
        Policy::Foreground
    } else if meta::has_finalizer(object, ORPHAN) {
        Policy::Orphan
    } else if meta::has_finalizer(object, FOREGROUND) {
        Policy::Foreground
    } else {
        Policy::Background
    };
    let options = DeleteOptions {
        policy: Some(policy),
        uid: Some(meta::uid(object).into()),
        ..DeleteOptions::default()
    };
    match remove(backend, &resource, key.namespace(), key.name(), &options).await {
        Ok(_) => Ok(()),
        Err(status) if matches!(status.code, 404 | 409) => Ok(()),
        Err(status) => Err(status),
    }
}

/// Owners that wait for each other in a ring would wait for ever: the ring is cut by no longer blocking.
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
    rewrite(backend, &resource, key, |object| {
        let owners = object["metadata"]["ownerReferences"].as_array_mut().into_iter().flatten();
        for owner in owners {
            if let Some(owner) = owner.as_object_mut() {
                owner.remove("blockOwnerDeletion");
            }
        }
    })
    .await?;
    for owner in owners(object) {
        backend.notices.leave_waiting_owner(text(owner, "uid"));
    }
    Ok(())
}

/// An object that owner references name: its uid, and whether it waits for its dependents.
struct Named {
    uid: String,
    is_waiting: bool,
}

impl Named {
    fn load(backend: &Backend, key: &Key) -> Option<Self> {
        let object = load(backend, key)?;
        let is_waiting = meta::is_deleting(&object) && meta::has_finalizer(&object, FOREGROUND);
        Some(Self { uid: meta::uid(&object).to_owned(), is_waiting })
    }
}

/// Finds owners. Each object is read once, however many references name it: it may be large, and they many.
struct OwnerLookup<'a> {
    backend: &'a Backend,
    table: &'a Table,
    found: HashMap<Key, Option<Named>>,
}

impl OwnerLookup<'_> {
    /// Returns what has become of an owner of the dependent.
    fn state(&mut self, dependent: &Key, owner: &Value) -> Owner {
        let (group, version) = match text(owner, "apiVersion").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", text(owner, "apiVersion")),
        };
        // A kind that is not served in this version cannot be looked up: nothing is decided about its objects.
        let Some(resource) = self.table.of_kind(group, version, text(owner, "kind")) else {
            return Owner::Solid;
        };
        if resource.namespaced && dependent.namespace().is_empty() {
            return Owner::Solid;
        }
        let key = key_of(resource, dependent.namespace(), text(owner, "name"));
        let backend = self.backend;
        match self.found.entry(key).or_insert_with_key(|key| Named::load(backend, key)) {
            Some(named) if named.uid != text(owner, "uid") => Owner::Dangling,
            Some(named) if named.is_waiting => Owner::Waiting,
            Some(_) => Owner::Solid,
            None => Owner::Dangling,
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// A row of the storage an object is in.
fn resource_of(table: &Table, key: &Key) -> Option<Arc<Resource>> {
    table.of_key(key).cloned()
}

async fn drop_owners(backend: &Backend, key: &Key, uids: &[String]) -> Result<(), Status> {
    let uids = uids.iter().map(String::as_str).collect::<HashSet<_>>();
    let table = backend.registry.table();
    let Some(resource) = resource_of(&table, key) else { return Ok(()) };
    rewrite(backend, &resource, key, |object| {
        let metadata = meta::metadata(object);
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|owner| !uids.contains(text(owner, "uid")));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    })
    .await
}

/// Takes a finalizer off; the object goes if it was the last.
pub(super) async fn release(backend: &Backend, key: &Key, finalizer: &str) -> Result<(), Status> {
    let table = backend.registry.table();
    let Some(resource) = resource_of(&table, key) else { return Ok(()) };
    rewrite(backend, &resource, key, |object| {
        let left = meta::finalizers(object).filter(|one| *one != finalizer).map(Into::into).collect();
        meta::set_finalizers(object, left);
    })
    .await
}
