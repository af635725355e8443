//! Converts objects between the version they are stored in and the version a client asks for.
//!
//! Usually the two are the same, and the stored bytes are returned unchanged. A custom object is pruned and defaulted
//! according to the current schema of its stored version, then renamed and pruned according to the requested version's
//! schema, whose defaults apply only to writes. An object written in a version other than the storage version is stored
//! without the latter's defaults and marked ([`UnrevisionedObject::needs_defaults`]). Events and autoscalers have their
//! own mappings. A conversion webhook replaces the renaming: [`before_webhook`] and [`after_webhook`] are the steps
//! around it. The caller calls the webhook, because nothing in this module is asynchronous.

use homeostat_core::Revision;
use serde_json::Value;

use crate::encode::{self, UnrevisionedObject};
use crate::resource::declaration::VersionConversion;
use crate::resource::{ConversionWebhook, CustomKind, Resource};
use crate::schema;

/// An object as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct StoredObject<'a> {
    /// Its JSON.
    pub bytes: &'a [u8],
    /// The revision of its last write.
    pub revision: Revision,
    /// See [`UnrevisionedObject::needs_defaults`].
    pub needs_defaults: bool,
}

/// Returns whether the stored bytes are already in this version.
pub fn is_current(resource: &Resource, stored: StoredObject<'_>) -> bool {
    let StoredObject { bytes, revision, needs_defaults } = stored;
    if let Some(custom) = resource.custom() {
        if needs_defaults || revision < custom.schema_since {
            return false;
        }
        has_head(resource, bytes)
    } else {
        conversion(resource).is_none_or(|conversion| (conversion.is_current)(resource, bytes))
    }
}

/// Returns whether the bytes of a custom object are in this version.
fn has_head(resource: &Resource, bytes: &[u8]) -> bool {
    // This runs for every event of every watch, so it compares part by part and allocates nothing.
    let head = [r#"{"apiVersion":""#, &*resource.group, "/", &*resource.version, r#"","#];
    let rest = head.iter().try_fold(bytes, |rest: &[u8], part| rest.strip_prefix(part.as_bytes()));
    rest.is_some()
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

/// Converts a stored object to this version.
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

/// Returns the webhook that must convert a stored object before it can be shown in this version, if any.
pub fn webhook_for<'a>(resource: &'a Resource, bytes: &[u8]) -> Option<&'a ConversionWebhook> {
    let webhook = resource.custom()?.conversion.as_deref()?;
    (!has_head(resource, bytes)).then_some(webhook)
}

/// Returns the webhook that must convert objects of this version before they can be stored, if any.
pub fn webhook_to_store(resource: &Resource) -> Option<&ConversionWebhook> {
    let custom = resource.custom()?;
    if custom.storage_version == resource.version { None } else { custom.conversion.as_deref() }
}

/// Prepares a stored object for conversion by a webhook.
pub fn before_webhook(resource: &Resource, object: &mut Value) {
    conform_stored(resource, object);
}

/// Removes fields that the version of an object returned by a webhook does not know.
pub fn after_webhook(resource: &Resource, object: &mut Value) {
    let Some(custom) = resource.custom() else { return };
    if let Some(schema) = custom.schemas.get(version_of(object)) {
        schema::prune(schema, object, None);
        schema::drop_nulls(schema, object);
        schema::repair_embedded(schema, object);
    }
}

/// Encodes an object that a webhook converted to the storage version.
pub fn encode_converted(resource: &Resource, stored: &Value) -> UnrevisionedObject {
    let encoded = encode::encode(resource, stored);
    let Some(custom) = resource.custom() else { return encoded };
    let mut conformed = stored.clone();
    conform(custom, &mut conformed);
    UnrevisionedObject { needs_defaults: conformed != *stored, ..encoded }
}

/// Prunes and defaults a custom object according to the schema of the version it is in.
fn conform(custom: &CustomKind, object: &mut Value) {
    if let Some(schema) = custom.schemas.get(version_of(object)) {
        schema::prune(schema, object, None);
        schema::repair_embedded(schema, object);
        if schema::default(schema, object).is_err() {
            // The object was stored before its kind had these defaults and must stay readable.
            tracing::debug!("an object is shown without some defaults, which would make it too large");
        }
    }
}

/// Moves a custom object to another version and removes the fields that this version does not know.
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

/// Encodes an object of this version for storage.
pub fn encode(resource: &Resource, object: &Value) -> UnrevisionedObject {
    let Some(stored) = to_storage(resource, object) else { return encode::encode(resource, object) };
    encode_converted(resource, &stored)
}

/// Returns the object in its stored form, if that differs from this version.
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
