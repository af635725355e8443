//! Encodes objects as JSON with a gap where the revision goes. This is the only encoding of objects.
//!
//! Built-in kinds begin with kind, apiVersion and metadata, as Kubernetes' own types do; custom kinds are
//! alphabetical. Lists of built-in kinds omit kind and apiVersion from their items, so [`item`] cuts that prefix off
//! the stored bytes instead of encoding again.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::resource::Resource;

/// The typical size of an encoding; it avoids the first few reallocations of the buffer.
const TYPICAL_BYTES: usize = 1024;

/// An encoded object that has no revision yet.
#[derive(Debug)]
pub struct UnrevisionedObject {
    /// The JSON, with an empty `metadata.resourceVersion`.
    pub bytes: Vec<u8>,
    /// The offset in `bytes` where the digits of the revision go.
    pub hole: usize,
    /// Whether the object lacks the defaults of the version it is stored in, and gets them whenever it is read.
    pub needs_defaults: bool,
}

/// Encodes an object to be stored. Ignores its `metadata.resourceVersion`: the store sets it.
pub fn encode(resource: &Resource, object: &Value) -> UnrevisionedObject {
    let mut bytes = Vec::with_capacity(TYPICAL_BYTES);
    let map = object.as_object().expect("only objects are stored");
    let hole = object_into(&mut bytes, map, !resource.is_custom());
    UnrevisionedObject { bytes, hole, needs_defaults: false }
}

/// Encodes an object with its own resourceVersion.
pub fn plain(resource: &Resource, object: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TYPICAL_BYTES);
    let Some(map) = object.as_object() else { return object.to_string().into_bytes() };
    let is_typed = !resource.is_custom() || map.get("kind").is_some_and(|kind| *kind != *resource.kind);
    bytes.push(b'{');
    if is_typed {
        for name in ["kind", "apiVersion", "metadata"] {
            if let Some(value) = map.get(name) {
                name_into(&mut bytes, name);
                json_into(&mut bytes, value);
            }
        }
    }
    for (name, value) in map {
        if !(is_typed && matches!(&**name, "kind" | "apiVersion" | "metadata")) {
            name_into(&mut bytes, name);
            json_into(&mut bytes, value);
        }
    }
    bytes.push(b'}');
    bytes
}

/// Writes the object and returns the offset of the gap.
fn object_into(bytes: &mut Vec<u8>, map: &Map<String, Value>, is_typed: bool) -> usize {
    let mut hole = 0;
    bytes.push(b'{');
    if is_typed {
        for name in ["kind", "apiVersion", "metadata"] {
            field_into(bytes, name, map.get(name).unwrap_or(&Value::Null), &mut hole);
        }
    }
    for (name, value) in map {
        if !(is_typed && matches!(&**name, "kind" | "apiVersion" | "metadata")) {
            field_into(bytes, name, value, &mut hole);
        }
    }
    bytes.push(b'}');
    hole
}

fn field_into(bytes: &mut Vec<u8>, name: &str, value: &Value, hole: &mut usize) {
    name_into(bytes, name);
    match value {
        Value::Object(metadata) if name == "metadata" => *hole = metadata_into(bytes, metadata),
        value => json_into(bytes, value),
    }
}

fn metadata_into(bytes: &mut Vec<u8>, metadata: &Map<String, Value>) -> usize {
    let mut hole = None;
    bytes.push(b'{');
    for (name, value) in metadata {
        if hole.is_none() && name.as_str() >= "resourceVersion" {
            hole = Some(hole_into(bytes));
        }
        if name != "resourceVersion" {
            name_into(bytes, name);
            json_into(bytes, value);
        }
    }
    let hole = hole.unwrap_or_else(|| hole_into(bytes));
    bytes.push(b'}');
    hole
}

fn hole_into(bytes: &mut Vec<u8>) -> usize {
    name_into(bytes, "resourceVersion");
    bytes.extend_from_slice(b"\"\"");
    bytes.len() - 1
}

fn name_into(bytes: &mut Vec<u8>, name: &str) {
    if !bytes.ends_with(b"{") {
        bytes.push(b',');
    }
    serde_json::to_writer(&mut *bytes, name).expect("text always encodes");
    bytes.push(b':');
}

fn json_into(bytes: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(bytes, value).expect("a JSON value always encodes");
}

/// Returns the bytes `{"kind":…,"apiVersion":…,` with which every object of a built-in kind begins.
pub fn type_prefix(resource: &Resource) -> String {
    format!(r#"{{"kind":"{}","apiVersion":"{}","#, resource.kind, resource.api_version())
}

/// Appends the entry as an item of a list: without `prefix` for built-in kinds (pass an empty prefix for custom
/// kinds).
pub fn item_into(bytes: &mut Vec<u8>, entry: &Bytes, prefix: &str) {
    if !prefix.is_empty() && entry.starts_with(prefix.as_bytes()) {
        bytes.push(b'{');
        bytes.extend_from_slice(&entry[prefix.len()..]);
    } else {
        bytes.extend_from_slice(entry);
    }
}

/// Returns the item in two parts: its first bytes, and the rest, which is not copied.
pub fn item(entry: &Bytes, prefix: &str) -> (&'static [u8], Bytes) {
    if !prefix.is_empty() && entry.starts_with(prefix.as_bytes()) {
        (b"{", entry.slice(prefix.len()..))
    } else {
        (b"", entry.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config_maps() -> Resource {
        crate::kinds::built_in_rows().into_iter().find(|row| &*row.plural == "configmaps").expect("served")
    }

    fn filled(object: &Value, revision: &str) -> Bytes {
        let UnrevisionedObject { mut bytes, hole, .. } = encode(&config_maps(), object);
        bytes.splice(hole..hole, revision.bytes());
        bytes.into()
    }

    #[test]
    fn the_hole_is_where_the_revision_goes() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {"name": "x", "uid": "u", "resourceVersion": "old"}});
        let bytes = filled(&object, "42");
        assert_eq!(
            std::str::from_utf8(&bytes).expect("text"),
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"42","uid":"u"},"data":{"a":"b"}}"#
        );
        let mut item = Vec::new();
        item_into(&mut item, &bytes, &type_prefix(&config_maps()));
        assert!(item.starts_with(br#"{"metadata":"#));
    }

    #[test]
    fn empty_metadata_still_gets_a_hole() {
        let bytes = filled(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}), "7");
        assert!(std::str::from_utf8(&bytes).expect("text").contains(r#""metadata":{"resourceVersion":"7"}"#));
    }
}
