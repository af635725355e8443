//! Between the version an object is stored in and the version it is asked for.
//!
//! Nearly always they are the same, and the stored bytes are the answer. Custom kinds convert by renaming the
//! version, and what was written under an earlier schema is pruned and defaulted by today's; events of the two groups and autoscalers of the two versions have mappings of their own.

use bytes::Bytes;
use homeostat_store::Entry;
use serde_json::Value;

use crate::kinds;
use crate::object::encode;
use crate::resource::Resource;
use crate::schema;

/// Are the stored bytes what this version shows?
pub(crate) fn is_current(resource: &Resource, entry: &Entry) -> bool {
    if let Some(custom) = resource.custom() {
        if entry.revision < custom.schema_since {
            return false;
        }
        // Asked for every event of every watch: compared part by part, nothing is made for it.
        let head = [r#"{"apiVersion":""#, &*resource.group, "/", &*resource.version, r#"","#];
        let rest =
            head.iter().try_fold(&*entry.bytes, |rest: &[u8], part| rest.strip_prefix(part.as_bytes()));
        rest.is_some()
    } else {
        match (&*resource.group, &*resource.plural) {
            ("events.k8s.io", "events") => false,
            ("autoscaling", "horizontalpodautoscalers") => {
                entry.bytes.starts_with(encode::type_prefix(resource).as_bytes())
            }
            _ => true,
        }
    }
}

/// Appends the bytes of an entry in this version. Nothing is counted on the way: what many watches copy at once is shared
/// by them, and a count each of them changes would be handed from core to core.
pub(crate) fn bytes_into(resource: &Resource, entry: &Entry, out: &mut Vec<u8>) {
    if is_current(resource, entry) {
        out.extend_from_slice(&entry.bytes);
    } else {
        out.extend_from_slice(&encode::plain(resource, &decode(resource, entry)));
    }
}

/// The bytes of an entry in this version.
pub(crate) fn bytes(resource: &Resource, entry: &Entry) -> Bytes {
    if is_current(resource, entry) {
        entry.bytes.clone()
    } else {
        encode::plain(resource, &decode(resource, entry)).into()
    }
}

/// The object of an entry in this version.
pub(crate) fn decode(resource: &Resource, entry: &Entry) -> Value {
    let object = encode::decode(entry);
    if is_current(resource, entry) { object } else { to_version(resource, object) }
}

/// Turns a stored object into this version.
fn to_version(resource: &Resource, mut object: Value) -> Value {
    match (&*resource.group, &*resource.plural) {
        ("events.k8s.io", "events") => kinds::events::from_core(object),
        ("autoscaling", "horizontalpodautoscalers") => {
            kinds::autoscaling::to_version(object, &resource.version)
        }
        _ => {
            object["apiVersion"] = resource.api_version().into();
            if let Some(schema) = resource.custom().and_then(|custom| custom.schema.as_ref()) {
                schema::prune(schema, &mut object, None);
                schema::default(schema, &mut object);
            }
            object
        }
    }
}

/// The object as it is stored, when that differs from this version.
pub(crate) fn to_storage(resource: &Resource, object: &Value) -> Option<Value> {
    if let Some(custom) = resource.custom() {
        if custom.storage_version == resource.version {
            return None;
        }
        let mut stored = object.clone();
        stored["apiVersion"] = format!("{}/{}", resource.group, custom.storage_version).into();
        return Some(stored);
    }
    match (&*resource.group, &*resource.plural, &*resource.version) {
        ("events.k8s.io", "events", _) => Some(kinds::events::to_core(object.clone())),
        ("autoscaling", "horizontalpodautoscalers", "v1") => {
            Some(kinds::autoscaling::to_version(object.clone(), "v2"))
        }
        _ => None,
    }
}
