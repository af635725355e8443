//! The one encoding of an object: JSON with a hole for the revision.
//!
//! Built-in kinds begin with kind, apiVersion, metadata, as Kubernetes' own types do; custom ones are alphabetical.
//! Lists of built-in kinds leave kind and apiVersion out of their items, so [`item`] cuts that prefix off the stored
//! bytes instead of encoding again.

use std::sync::Arc;

use bytes::Bytes;
use homeostat_store::Entry;
use serde_json::{Map, Value};

use super::view::View;
use crate::resource::Resource;

/// An encoding without its revision is about this large; saves the first few growths of the buffer.
const TYPICAL_BYTES: usize = 1024;

/// Encodes an object for the store. Its `metadata.resourceVersion` is ignored: the store writes it.
pub(crate) fn encode(resource: &Resource, object: &Value) -> homeostat_store::Value {
    let mut bytes = Vec::with_capacity(TYPICAL_BYTES);
    let map = object.as_object().expect("only objects are stored");
    let hole = object_into(&mut bytes, map, !resource.is_custom());
    let hole = u32::try_from(hole).expect("objects are far below 4 GiB");
    let view = Arc::new(View::of(object));
    homeostat_store::Value { bytes: bytes.into(), hole: Some(hole), view: Some(view) }
}

/// Encodes an object that is shown as it is, with the resourceVersion it carries.
pub(crate) fn plain(resource: &Resource, object: &Value) -> Vec<u8> {
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

/// Writes the object and gives the place of the hole.
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

/// The object of an entry.
pub(crate) fn decode(entry: &Entry) -> Value {
    serde_json::from_slice(&entry.bytes).expect("the server stores only what it encoded")
}

/// The bytes `{"kind":…,"apiVersion":…,` every object of a built-in kind begins with.
pub(crate) fn type_prefix(resource: &Resource) -> String {
    format!(r#"{{"kind":"{}","apiVersion":"{}","#, resource.kind, resource.api_version())
}

/// The entry as an item of a list: without `prefix` for built-in kinds (pass an empty one for custom kinds).
pub(crate) fn item_into(bytes: &mut Vec<u8>, entry: &Bytes, prefix: &str) {
    if !prefix.is_empty() && entry.starts_with(prefix.as_bytes()) {
        bytes.push(b'{');
        bytes.extend_from_slice(&entry[prefix.len()..]);
    } else {
        bytes.extend_from_slice(entry);
    }
}

/// The same in two parts: how the item starts, and the rest, which is not copied.
pub(crate) fn item(entry: &Bytes, prefix: &str) -> (&'static [u8], Bytes) {
    if !prefix.is_empty() && entry.starts_with(prefix.as_bytes()) {
        (b"{", entry.slice(prefix.len()..))
    } else {
        (b"", entry.clone())
    }
}

/// Does this encoding equal the stored entry, revision aside?
pub(crate) fn is_same(entry: &Entry, value: &homeostat_store::Value) -> bool {
    let (Some((from, to)), Some(hole)) = (entry.digits, value.hole) else { return false };
    let (from, to, hole) = (from as usize, to as usize, hole as usize);
    from == hole && entry.bytes[..from] == value.bytes[..hole] && entry.bytes[to..] == value.bytes[hole..]
}

#[cfg(test)]
mod tests {
    use homeostat_core::{Key, Revision};
    use serde_json::json;

    use super::*;

    fn config_maps() -> Resource {
        Resource::built_in().into_iter().find(|row| &*row.plural == "configmaps").expect("served")
    }

    #[test]
    fn the_hole_is_where_the_revision_goes() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"},
            "metadata": {"name": "x", "uid": "u", "resourceVersion": "old"}});
        let value = encode(&config_maps(), &object);
        let entry = Entry::new(Key::new("", "configmaps", "d", "x"), Revision::new(42), &value);
        assert_eq!(
            std::str::from_utf8(&entry.bytes).expect("text"),
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","resourceVersion":"42","uid":"u"},"data":{"a":"b"}}"#
        );
        assert!(is_same(&entry, &value));
        let mut item = Vec::new();
        item_into(&mut item, &entry.bytes, &type_prefix(&config_maps()));
        assert!(item.starts_with(br#"{"metadata":"#));
    }

    #[test]
    fn empty_metadata_still_gets_a_hole() {
        let value = encode(&config_maps(), &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}));
        let (bytes, _) = value.fill(Revision::new(7));
        assert!(std::str::from_utf8(&bytes).expect("text").contains(r#""metadata":{"resourceVersion":"7"}"#));
    }
}
