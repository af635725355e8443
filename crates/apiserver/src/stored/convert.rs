//! Reads stored entries in the requested version, and encodes objects of any version for the store. The rules are in
//! [`homeostat_api::convert`].

use bytes::Bytes;
use homeostat_api::convert::{self, StoredObject};
use homeostat_api::encode::plain;
use homeostat_api::resource::Resource;
use homeostat_store::Entry;
use serde_json::Value;

use super::encode;

/// Returns whether the stored bytes are those of this version.
pub(crate) fn is_current(resource: &Resource, entry: &Entry) -> bool {
    let needs_defaults = encode::needs_defaults(entry);
    convert::is_current(
        resource,
        StoredObject { bytes: &entry.bytes, revision: entry.revision, needs_defaults },
    )
}

/// Appends the bytes of an entry in this version. Changes no reference count: many watches copy a shared entry
/// concurrently, and a count that each of them changes would travel from core to core.
pub(crate) fn bytes_into(resource: &Resource, entry: &Entry, out: &mut Vec<u8>) {
    if is_current(resource, entry) {
        out.extend_from_slice(&entry.bytes);
    } else {
        out.extend_from_slice(&plain(resource, &decode(resource, entry)));
    }
}

/// Returns the bytes of an entry in this version.
pub(crate) fn bytes(resource: &Resource, entry: &Entry) -> Bytes {
    if is_current(resource, entry) {
        entry.bytes.clone()
    } else {
        plain(resource, &decode(resource, entry)).into()
    }
}

/// Returns the object of an entry in this version.
pub(crate) fn decode(resource: &Resource, entry: &Entry) -> Value {
    let object = encode::decode(entry);
    if is_current(resource, entry) { object } else { convert::to_version(resource, object) }
}

/// Returns the object of an entry in its stored version, for changes that keep the version.
pub(crate) fn decode_stored(resource: &Resource, entry: &Entry) -> Value {
    let mut object = encode::decode(entry);
    convert::conform_stored(resource, &mut object);
    object
}

/// Encodes an object of this version for the store.
pub(crate) fn encode(resource: &Resource, object: &Value) -> homeostat_store::Value {
    encode::stored_value(convert::encode(resource, object), object)
}
