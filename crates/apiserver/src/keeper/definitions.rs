//! Definitions: one that was written and not established (its writer went away, the process ended) is; one that ends
//! lets its objects go first.

use std::sync::Arc;

use futures::{TryStreamExt as _, stream};
use homeostat_core::{Key, Prefix};
use serde_json::Value;

use crate::backend::Backend;
use crate::crd;
use crate::kinds::apiextensions::custom_resource_definition::{
    CLEANUP_FINALIZER, CUSTOM_RESOURCE_DEFINITION,
};
use crate::object::{encode, meta};
use crate::resource::{Custom, Resource, Source};
use crate::rewrite::rewrite;
use crate::status::Status;
use crate::verbs::{DeleteOptions, Policy, remove};

/// Enough that a sync of the disk is shared by many, few enough that clients' writes find room in the queue.
const REMOVALS_AT_ONCE: usize = 64;

/// Looks at a definition.
pub(super) async fn look_at(backend: &Backend, name: &str) -> Result<(), Status> {
    let key = crd::STORAGE.key("", name);
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&key) else { return crd::reconsider_names(backend).await };
    let definition = encode::decode(entry);
    if !meta::is_deleting(&definition) {
        return crd::establish(backend, &key).await;
    }
    if !meta::has_finalizer(&definition, CLEANUP_FINALIZER) {
        return Ok(());
    }
    let resource = bare_resource(&definition);
    let all = resource.storage().prefix();
    backend.notices.set_resource_ending(&all, Some(name));
    let table = backend.registry.table();
    let definitions = table.of_declared(&CUSTOM_RESOURCE_DEFINITION);
    let now = backend.now_text();
    rewrite(backend, definitions, &key, |object| crd::mark_emptying(object, &now)).await?;
    if remove_all(backend, &resource, &all).await? {
        backend.notices.set_resource_ending(&all, None);
        rewrite(backend, definitions, &key, |object| crd::mark_emptied(object, &now)).await?;
    }
    Ok(())
}

/// Deletes every object of a resource; are they all gone?
async fn remove_all(backend: &Backend, resource: &Resource, prefix: &Prefix) -> Result<bool, Status> {
    remove_under(backend, resource, prefix).await?;
    let is_empty = backend.store.snapshot().range(prefix, "").next().is_none();
    Ok(is_empty)
}

/// Deletes what is under a prefix, several at once: the store makes them durable together.
pub(super) async fn remove_under(
    backend: &Backend,
    resource: &Resource,
    prefix: &Prefix,
) -> Result<(), Status> {
    let options = &DeleteOptions { policy: Some(Policy::Background), ..DeleteOptions::default() };
    let snapshot = backend.store.snapshot();
    let keys = snapshot.range(prefix, "").map(|entry| Ok(entry.key.clone())).collect::<Vec<_>>();
    let removed = stream::iter(keys).try_for_each_concurrent(REMOVALS_AT_ONCE, |key: Key| async move {
        match remove(backend, resource, key.namespace(), key.name(), options).await {
            Ok(_) => Ok(()),
            Err(status) if status.code == 404 => Ok(()),
            Err(status) => Err(status),
        }
    });
    removed.await
}

/// Enough of a row to find and delete custom objects, whether or not the definition was ever served.
fn bare_resource(definition: &Value) -> Resource {
    let spec = &definition["spec"];
    let field = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().into();
    Resource {
        group: field(spec, "group"),
        version: "".into(),
        plural: field(&spec["names"], "plural"),
        singular: "".into(),
        kind: field(&spec["names"], "kind"),
        list_kind: "".into(),
        namespaced: spec["scope"] == "Namespaced",
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        source: Source::Custom(Arc::new(Custom { is_terminating: true, ..Custom::default() })),
    }
}
