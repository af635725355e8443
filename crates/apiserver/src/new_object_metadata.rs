//! Sets the metadata of a new object that only the server sets: namespace, uid, creation time, generation.

use homeostat_api::object::meta;
use homeostat_api::resource::Resource;
use homeostat_api::resource::strategy::strategy;
use homeostat_core::Uid;
use serde_json::Value;

use crate::backend::Backend;

/// Removes the fields that clients must not set from a new object.
pub(crate) fn clear(object: &mut Value) {
    let metadata = meta::metadata(object);
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(name);
    }
}

/// Gives a new object its namespace, uid and creation time.
pub(crate) fn stamp(backend: &Backend, resource: &Resource, namespace: &str, object: &mut Value) {
    let uid = Uid::random(&backend.entropy);
    let now = backend.now_text();
    let metadata = meta::metadata(object);
    if resource.namespaced {
        metadata.insert("namespace".into(), namespace.into());
    } else {
        metadata.remove("namespace");
    }
    metadata.insert("uid".into(), uid.as_str().into());
    metadata.insert("creationTimestamp".into(), now.into());
    if strategy(resource).has_generation() {
        metadata.insert("generation".into(), 1.into());
    }
}

/// Sets the metadata of an object that the server itself writes.
pub(crate) fn stamp_new(backend: &Backend, resource: &Resource, namespace: &str, object: &mut Value) {
    clear(object);
    stamp(backend, resource, namespace, object);
}
