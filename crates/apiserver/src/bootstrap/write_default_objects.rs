//! Writes the default objects of a cluster: creates the missing ones and corrects the server's address. Their owner may
//! change everything else in them.

use std::sync::Arc;

use homeostat_api::kinds::core::endpoints::ENDPOINTS;
use homeostat_api::kinds::discovery::endpoint_slice::ENDPOINT_SLICE;
use homeostat_api::resource::Resource;
use homeostat_api::resource::declaration::BuiltInKind;
use homeostat_core::{Key, Revision};
use homeostat_store::{Entry, Error, Expect, Op, Txn};
use serde_json::Value;

use super::objects::{self, BootstrapConfig};
use crate::backend::{Backend, expect_unchanged};
use crate::new_object_metadata::stamp_new;
use crate::stored::encode;
use crate::{api_services, idle_revision_bump};

/// Fields that hold the address of this server, which is only valid until the next start.
const ADDRESS_FIELDS: [&str; 4] = ["subsets", "endpoints", "ports", "addressType"];

/// Writes the default objects. The background tasks have not started yet, and read everything when they do.
///
/// In an empty store, the revisions up to this point are compacted before a client can request them, as in every server
/// that has been running for a while: a watch from revision 1 must list first.
pub(crate) async fn write(backend: &Backend, config: &BootstrapConfig) -> Result<(), Error> {
    let is_new = backend.store.snapshot().revision() == Revision::ZERO;
    if is_new {
        idle_revision_bump::advance(backend).await?;
    }
    write_missing(backend, config).await?;
    if is_new {
        backend.store.compact(backend.store.snapshot().revision()).await?;
    }
    Ok(())
}

async fn write_missing(backend: &Backend, config: &BootstrapConfig) -> Result<(), Error> {
    let objects = objects::default_objects(config)
        .into_iter()
        .filter_map(|(key, object)| bootstrap_step(backend, key, object));
    let services = api_services::pending_changes(backend)
        .into_iter()
        .map(|change| (change.key, expect_unchanged(change.old.as_ref()), change.op));
    let steps = objects.chain(services).collect::<Vec<_>>();
    if !steps.is_empty() {
        backend.store.commit(Txn { steps }).await?;
    }
    Ok(())
}

/// Re-creates the API server's own objects that are gone.
pub(crate) async fn restore_api_server(backend: &Backend, config: &BootstrapConfig) -> Result<(), Error> {
    for (key, object) in objects::api_server(config.address) {
        let Some((key, Expect::Absent, op)) = bootstrap_step(backend, key, object) else { continue };
        match backend.commit(key, None::<&Arc<Entry>>, op).await {
            // Another write came first.
            Ok(_) | Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn bootstrap_step(backend: &Backend, key: Key, mut object: Value) -> Option<(Key, Expect, Op)> {
    let table = backend.registry.table();
    let row = table.by_key(&key)?;
    let snapshot = backend.store.snapshot();
    let Some(stored) = snapshot.get(&key) else {
        stamp_new(backend, row, key.namespace(), &mut object);
        let value = encode::encode_stored_version(row, &object);
        return Some((key, Expect::Absent, Op::Put(value)));
    };
    let corrected = with_current_address(row, encode::parse_entry(stored), object)?;
    let value = encode::encode_stored_version(row, &corrected);
    (!encode::is_same(stored, &value)).then(|| (key, Expect::At(stored.revision), Op::Put(value)))
}

/// Returns the stored object with the current address; `None` if it contains no addresses.
fn with_current_address(row: &Resource, mut stored: Value, mut wanted: Value) -> Option<Value> {
    if ![&ENDPOINTS, &ENDPOINT_SLICE].map(BuiltInKind::storage).contains(&row.storage()) {
        return None;
    }
    for field in ADDRESS_FIELDS {
        if let Some(value) = wanted.get_mut(field) {
            stored[field] = value.take();
        }
    }
    Some(stored)
}
