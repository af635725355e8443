//! Converts objects between the version they are stored in and the version a client asks for.
//!
//! Nearly always the two are the same, and the stored bytes are the answer. A custom object is pruned and defaulted
//! by the current schema of the version it is stored in, then renamed and pruned by the schema of the requested
//! version, whose defaults apply to writes and not to reads. An object written in another version than the stored one
//! is stored without the defaults of the stored version, with a note ([`Encoded::needs_defaults`]). Events of the two groups and
//! autoscalers of the two versions have mappings of their own.

use homeostat_core::Revision;
use serde_json::Value;

use crate::encode::{self, Encoded};
use crate::resource::declaration::VersionConversion;
use crate::resource::{CustomKind, Resource};
use crate::schema;

/// An object as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct StoredObject<'a> {
    /// Its JSON.
    pub bytes: &'a [u8],
    /// The revision of its last write.
    pub revision: Revision,
    /// See [`Encoded::needs_defaults`].
    pub needs_defaults: bool,
}

/// Returns whether the stored bytes are what this version shows.
pub fn is_current(resource: &Resource, stored: StoredObject<'_>) -> bool {
    let StoredObject { bytes, revision, needs_defaults } = stored;
    if let Some(custom) = resource.custom() {
        if needs_defaults || revision < custom.schema_since {
            return false;
        }
        // This runs for every event of every watch, so it compares part by part and allocates nothing.
        let head = [r#"{"apiVersion":""#, &*resource.group, "/", &*resource.version, r#"","#];
        let rest = head.iter().try_fold(bytes, |rest: &[u8], part| rest.strip_prefix(part.as_bytes()));
        rest.is_some()
    } else {
        conversion(resource).is_none_or(|conversion| (conversion.is_current)(resource, bytes))
    }
}

/// Returns the functions that convert a built-in kind from its stored version to this one and back.
fn conversion(resource: &Resource) -> Option<&'static VersionConversion> {
    resource.declaration()?.conversion.as_ref()
}

/// Brings a stored object up to the current schema of the version it is stored in, for changes that keep that
/// version.
pub fn conform_stored(resource: &Resource, object: &mut Value) {
    if let Some(custom) = resource.custom() {
        conform(custom, object);
    }
}

/// Turns a stored object into this version.
pub fn to_version(resource: &Resource, mut object: Value) -> Value {
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
fn conform(custom: &CustomKind, object: &mut Value) {
    if let Some(schema) = custom.schemas.get(version_of(object)) {
        schema::prune(schema, object, None);
        schema::repair_embedded(schema, object);
        if schema::default(schema, object).is_err() {
            // The object was stored before its kind had these defaults, and it must stay readable.
            tracing::debug!("an object is shown without some defaults, which would make it too large");
        }
    }
}

/// Moves a custom object to another version and drops the fields that version does not know.
fn rename(resource: &Resource, custom: &CustomKind, version: &str, object: &mut Value) {
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
pub fn encode(resource: &Resource, object: &Value) -> Encoded {
    let Some(stored) = to_storage(resource, object) else { return encode::encode(resource, object) };
    let encoded = encode::encode(resource, &stored);
    let Some(custom) = resource.custom() else { return encoded };
    let mut conformed = stored.clone();
    conform(custom, &mut conformed);
    Encoded { needs_defaults: conformed != stored, ..encoded }
}

/// Returns the object as it is stored, if that differs from this version.
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
