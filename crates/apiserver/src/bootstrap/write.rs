//! Writes the objects a cluster is born with: what is missing is created, where the server is found is corrected,
//! everything else is its owner's to change.

use std::sync::Arc;

use homeostat_core::{Key, Revision};
use homeostat_store::{Entry, Error, Expect, Op, Txn};
use serde_json::Value;

use super::objects::{self, Config};
use crate::backend::{Backend, expected};
use crate::keeper::{history, service_changes};
use crate::kinds::core::endpoints::ENDPOINTS;
use crate::kinds::core::service::SERVICE;
use crate::kinds::declaration::Kind;
use crate::kinds::discovery::endpoint_slice::ENDPOINT_SLICE;
use crate::object::encode;
use crate::resource::Resource;
use crate::storage::Storage;
use crate::verbs::stamp_new;

/// Fields that say where this server is: true only until the next start.
const ADDRESS_FIELDS: [&str; 4] = ["subsets", "endpoints", "ports", "addressType"];

/// Writes them. The keeper has not started yet, and reads everything when it does.
///
/// In an empty store the revisions up to here are gone before a client can ask for them, as in every server that has run
/// for a while: a watch from revision 1 is told to list.
pub(crate) async fn write(backend: &Backend, config: &Config) -> Result<(), Error> {
    let is_new = backend.store.snapshot().revision() == Revision::ZERO;
    if is_new {
        history::advance(backend).await?;
    }
    write_missing(backend, config).await?;
    if is_new {
        backend.store.compact(backend.store.snapshot().revision()).await?;
    }
    Ok(())
}

async fn write_missing(backend: &Backend, config: &Config) -> Result<(), Error> {
    let objects = objects::objects(config).into_iter().filter_map(|(key, object)| step(backend, key, object));
    let services =
        service_changes(backend).into_iter().map(|(key, old, op)| (key, expected(old.as_ref()), op));
    let steps = objects.chain(services).collect::<Vec<_>>();
    if !steps.is_empty() {
        backend.store.commit(Txn { steps }).await?;
    }
    Ok(())
}

/// Is this one of the objects by which the server is found?
pub(crate) fn is_api_server(key: &Key) -> bool {
    let is_kind = [&SERVICE, &ENDPOINTS, &ENDPOINT_SLICE].map(Kind::storage).contains(&Storage::of_key(key));
    is_kind && key.namespace() == "default" && key.name() == "kubernetes"
}

/// Makes those of them that are gone.
pub(crate) async fn restore(backend: &Backend, config: &Config) -> Result<(), Error> {
    for (key, object) in objects::api_server(config.address) {
        let Some((key, Expect::Absent, op)) = step(backend, key, object) else { continue };
        match backend.commit(key, None::<&Arc<Entry>>, op).await {
            // Somebody else wrote it meanwhile.
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn step(backend: &Backend, key: Key, mut object: Value) -> Option<(Key, Expect, Op)> {
    let table = backend.registry.table();
    let row = table.of_key(&key)?;
    let snapshot = backend.store.snapshot();
    let Some(stored) = snapshot.get(&key) else {
        stamp_new(backend, row, key.namespace(), &mut object);
        let value = encode::encode(row, &object);
        return Some((key, Expect::Absent, Op::Put(value)));
    };
    let corrected = corrected(row, encode::decode(stored), object)?;
    let value = encode::encode(row, &corrected);
    (!encode::is_same(stored, &value)).then(|| (key, Expect::At(stored.revision), Op::Put(value)))
}

/// The stored object with today's address; `None`: it says nothing about addresses.
fn corrected(row: &Resource, mut stored: Value, mut wanted: Value) -> Option<Value> {
    if ![&ENDPOINTS, &ENDPOINT_SLICE].map(Kind::storage).contains(&row.storage()) {
        return None;
    }
    for field in ADDRESS_FIELDS {
        if let Some(value) = wanted.get_mut(field) {
            stored[field] = value.take();
        }
    }
    Some(stored)
}
