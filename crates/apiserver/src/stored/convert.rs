//! Reads stored entries in the requested version, and encodes objects of any version for the store. The rules are in
//! [`homeostat_api::convert`].

use bytes::Bytes;
use homeostat_api::convert::{self, StoredObject};
use homeostat_api::encode::plain;
use homeostat_api::resource::Resource;
use homeostat_store::Entry;
use serde_json::Value;

use super::encode;

/// Returns whether the stored bytes are in this version.
pub(crate) fn is_current(resource: &Resource, entry: &Entry) -> bool {
    let needs_defaults = encode::needs_defaults(entry);
    if entry.tag == encode::CONVERTED {
        return true;
    }
    convert::is_current(
        resource,
        StoredObject { bytes: &entry.bytes, revision: entry.revision, needs_defaults },
    )
}

/// Appends the bytes of an entry in this version. This does not change any reference count: many watches copy a shared
/// entry concurrently, and a count that each of them changes would bounce between cores.
pub(crate) fn bytes_into(resource: &Resource, entry: &Entry, out: &mut Vec<u8>) {
    if is_current(resource, entry) {
        out.extend_from_slice(&entry.bytes);
    } else {
        out.extend_from_slice(&plain(resource, &decode_in_version(resource, entry)));
    }
}

/// Returns the bytes of an entry in this version.
pub(crate) fn bytes(resource: &Resource, entry: &Entry) -> Bytes {
    if is_current(resource, entry) {
        entry.bytes.clone()
    } else {
        plain(resource, &decode_in_version(resource, entry)).into()
    }
}

/// Returns the object of an entry in this version.
pub(crate) fn decode_in_version(resource: &Resource, entry: &Entry) -> Value {
    let object = encode::parse_entry(entry);
    if is_current(resource, entry) { object } else { convert::to_version(resource, object) }
}

/// Returns the object of an entry in its stored version, for changes that keep the version.
pub(crate) fn decode_stored(resource: &Resource, entry: &Entry) -> Value {
    let mut object = encode::parse_entry(entry);
    convert::conform_stored(resource, &mut object);
    object
}

/// Returns an entry with the result of a webhook's conversion.
pub(crate) fn converted_entry(resource: &Resource, stored: &Entry, object: &Value) -> Entry {
    let encoded = homeostat_api::encode::encode(resource, object);
    let value = homeostat_store::Value { tag: encode::CONVERTED, ..encode::stored_value(encoded, object) };
    Entry::new(stored.key.clone(), stored.revision, &value)
}

/// Encodes an object that a webhook converted to the storage version.
pub(crate) fn encode_converted(resource: &Resource, object: &Value) -> homeostat_store::Value {
    encode::stored_value(convert::encode_converted(resource, object), object)
}

/// Encodes an object of this version for the store.
pub(crate) fn encode_from_version(resource: &Resource, object: &Value) -> homeostat_store::Value {
    encode::stored_value(convert::encode(resource, object), object)
}
