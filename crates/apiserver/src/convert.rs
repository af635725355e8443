//! Between the version an object is stored in and the version it is asked for.
//!
//! Nearly always they are the same, and the stored bytes are the answer. A custom object is pruned and defaulted by
//! today's schema of the version it is stored in, then renamed and pruned by the schema of the version asked for, whose
//! defaults are for what is written and not for what is read. What is written in another version than the stored one is
//! stored without the defaults of that one, and marked by [`NEEDS_DEFAULTS`]. Events of the two groups and autoscalers of the
//! two versions have mappings of their own.

use bytes::Bytes;
use homeostat_store::Entry;
use serde_json::Value;

use crate::kinds::declaration::Conversion;
use crate::object::encode;
use crate::resource::{Custom, Resource};
use crate::schema;

/// How the bytes of an object begin that gets defaults whenever it is read; others begin without the space.
const NEEDS_DEFAULTS: &[u8] = b"{ ";

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
        conversion(resource).is_none_or(|conversion| (conversion.is_current)(resource, entry))
    }
}

/// How a built-in kind gets from its stored version to this one and back.
fn conversion(resource: &Resource) -> Option<&'static Conversion> {
    resource.declaration()?.conversion.as_ref()
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

/// The object of an entry in the version it is stored in, for changes that keep it there.
pub(crate) fn decode_stored(resource: &Resource, entry: &Entry) -> Value {
    let mut object = encode::decode(entry);
    if let Some(custom) = resource.custom() {
        conform(custom, &mut object);
    }
    object
}

/// Turns a stored object into this version.
fn to_version(resource: &Resource, mut object: Value) -> Value {
    if let Some(custom) = resource.custom() {
        conform(custom, &mut object);
        rename(resource, custom, &resource.version, &mut object);
        return object;
    }
    match conversion(resource) {
        Some(conversion) => (conversion.from_stored)(object, &resource.version),
        None => object,
    }
}

/// Prunes and defaults a custom object by the schema of the version it is in.
fn conform(custom: &Custom, object: &mut Value) {
    if let Some(schema) = custom.schemas.get(version_of(object)) {
        schema::prune(schema, object, None);
        schema::repair_embedded(schema, object);
        if schema::default(schema, object).is_err() {
            // It was stored before its kind had these defaults, and must stay readable.
            tracing::debug!("an object is shown without some defaults, which would make it too large");
        }
    }
}

/// Moves a custom object to another version, and drops what that one does not know.
fn rename(resource: &Resource, custom: &Custom, version: &str, object: &mut Value) {
    if version_of(object) == version {
        return;
    }
    object["apiVersion"] = format!("{}/{version}", resource.group).into();
    if let Some(schema) = custom.schemas.get(version) {
        schema::prune(schema, object, None);
        schema::drop_nulls(schema, object);
        schema::repair_embedded(schema, object);
    }
}

fn version_of(object: &Value) -> &str {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    api_version.split_once('/').map_or(api_version, |(_, version)| version)
}

/// Encodes an object of this version as it is stored.
pub(crate) fn encode(resource: &Resource, object: &Value) -> homeostat_store::Value {
    let Some(stored) = to_storage(resource, object) else { return encode::encode(resource, object) };
    let value = encode::encode(resource, &stored);
    let Some(custom) = resource.custom() else { return value };
    let mut conformed = stored.clone();
    conform(custom, &mut conformed);
    if conformed == stored { value } else { mark_needs_defaults(&value) }
}

fn mark_needs_defaults(value: &homeostat_store::Value) -> homeostat_store::Value {
    let rest = value.bytes.strip_prefix(b"{").expect("only objects are stored");
    homeostat_store::Value {
        bytes: [NEEDS_DEFAULTS, rest].concat().into(),
        hole: value.hole.map(|hole| hole + 1),
        view: value.view.clone(),
    }
}

/// The object as it is stored, when that differs from this version.
fn to_storage(resource: &Resource, object: &Value) -> Option<Value> {
    if let Some(custom) = resource.custom() {
        if custom.storage_version == resource.version {
            return None;
        }
        let mut stored = object.clone();
        rename(resource, custom, &custom.storage_version, &mut stored);
        return Some(stored);
    }
    conversion(resource).and_then(|conversion| (conversion.to_stored)(object, &resource.version))
}
