//! Encodes objects as values for the store: a single encoding with a gap for the revision, and the parsed labels and
//! owners.

use std::sync::Arc;

use homeostat_api::encode::{self, UnrevisionedObject};
use homeostat_api::resource::Resource;
use homeostat_store::Entry;
use serde_json::Value;

use super::labels_and_owners::LabelsAndOwners;

/// The tag of an entry that gets defaults whenever it is read; see [`UnrevisionedObject::needs_defaults`]. Other
/// entries have 0.
pub(crate) const NEEDS_DEFAULTS: u8 = 1;

/// The tag of an entry that is not stored: a webhook converted it, and it contains exactly what its version shows.
pub(crate) const CONVERTED: u8 = 2;

/// Returns whether an entry gets defaults whenever it is read.
pub(super) fn needs_defaults(entry: &Entry) -> bool {
    entry.tag == NEEDS_DEFAULTS
}

/// Encodes an object for the store. Ignores its `metadata.resourceVersion`: the store sets it.
pub(crate) fn encode_stored_version(resource: &Resource, object: &Value) -> homeostat_store::Value {
    stored_value(encode::encode(resource, object), object)
}

/// Returns the value of an encoded object.
pub(super) fn stored_value(encoded: UnrevisionedObject, object: &Value) -> homeostat_store::Value {
    let hole = u32::try_from(encoded.hole).expect("objects are far below 4 GiB");
    let view = Arc::new(LabelsAndOwners::from_object(object));
    let tag = if encoded.needs_defaults { NEEDS_DEFAULTS } else { 0 };
    homeostat_store::Value { bytes: encoded.bytes.into(), hole: Some(hole), tag, view: Some(view) }
}

/// Returns the object of an entry.
pub(crate) fn parse_entry(entry: &Entry) -> Value {
    serde_json::from_slice(&entry.bytes).expect("the server stores only what it encoded")
}

/// Returns whether this encoding equals the stored entry, apart from the revision.
pub(crate) fn is_same(entry: &Entry, value: &homeostat_store::Value) -> bool {
    let (Some((from, to)), Some(hole)) = (entry.digits, value.hole) else { return false };
    let (from, to, hole) = (from as usize, to as usize, hole as usize);
    let is_same_head = from == hole && entry.tag == value.tag;
    is_same_head && entry.bytes[..from] == value.bytes[..hole] && entry.bytes[to..] == value.bytes[hole..]
}

#[cfg(test)]
mod tests {
    use homeostat_api::kinds::core::config_map::CONFIG_MAP;
    use homeostat_core::Revision;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_equals_its_encoding_whatever_the_revision() {
        let rows = homeostat_api::kinds::built_in_rows();
        let row = rows.iter().find(|row| &*row.plural == "configmaps").expect("served");
        let object = |data: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": data},
                "metadata": {"name": "x", "uid": "u", "resourceVersion": "old"}})
        };
        let value = encode_stored_version(row, &object("b"));
        let entry = Entry::new(CONFIG_MAP.storage().key("d", "x"), Revision::new(42), &value);
        assert_eq!(parse_entry(&entry)["metadata"]["resourceVersion"], "42");
        assert!(is_same(&entry, &value));
        assert!(!is_same(&entry, &encode_stored_version(row, &object("c"))));
        assert!(!is_same(&entry, &homeostat_store::Value { tag: NEEDS_DEFAULTS, ..value }));
    }
}
