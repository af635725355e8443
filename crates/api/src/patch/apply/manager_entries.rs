//! Parses, matches, sorts, caps and writes the entries of `metadata.managedFields`.
//!
//! **Invariant:** entries that the server wrote are used as they are; entries that a client sends are checked and
//! normalized. An applier is identified by name and subresource, an updater also by its API version. No entry is
//! empty.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::field_set::{self, FieldSet};

/// The maximum number of separate updaters; older ones are merged, so that the list cannot grow indefinitely.
const UPDATERS_MAX: usize = 10;

/// The manager that represents merged old updaters.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ManagerOperation {
    Apply,
    Update,
}

impl ManagerOperation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct ManagerEntry {
    pub(super) manager: String,
    pub(super) operation: ManagerOperation,
    pub(super) api_version: String,
    pub(super) subresource: String,
    pub(super) time: Option<String>,
    pub(super) fields: FieldSet,
}

impl ManagerEntry {
    /// Returns whether both entries belong to the same manager.
    pub(super) fn is_same_manager(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.manager == other.manager
            && self.subresource == other.subresource
            && (self.operation == ManagerOperation::Apply || self.api_version == other.api_version)
    }

    /// Returns the entry without its fields.
    pub(super) fn without_fields(&self) -> Self {
        Self {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: self.api_version.clone(),
            subresource: self.subresource.clone(),
            time: self.time.clone(),
            fields: FieldSet::new(),
        }
    }

    /// Returns the manager as messages name it.
    pub(super) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        if self.operation == ManagerOperation::Update {
            text = format!("{text} using {}", self.api_version);
        }
        text
    }

    /// Returns the sort key of managers in messages, which is how Kubernetes identifies them.
    pub(super) fn identity(&self) -> (&str, ManagerOperation, &str, &str) {
        let api_version = if self.operation == ManagerOperation::Apply { "" } else { &self.api_version };
        (&self.manager, self.operation, api_version, &self.subresource)
    }

    /// Returns the sort key of entries in the list.
    fn rank(&self) -> (ManagerOperation, Option<&str>, &str, &str, &str) {
        (self.operation, self.time.as_deref(), &self.manager, &self.api_version, &self.subresource)
    }

    fn decode(value: Value, read: impl Fn(Value) -> Option<FieldSet>) -> Option<Self> {
        let Value::Object(mut entry) = value else { return None };
        let operation = match entry.get("operation")?.as_str()? {
            "Apply" => ManagerOperation::Apply,
            "Update" => ManagerOperation::Update,
            _ => return None,
        };
        if entry.get("fieldsType")?.as_str()? != "FieldsV1" {
            return None;
        }
        let fields = entry.remove("fieldsV1").unwrap_or_default();
        let mut text = |name: &str| match entry.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let decoded = Self {
            manager: text("manager"),
            operation,
            api_version: text("apiVersion"),
            subresource: text("subresource"),
            time: Some(text("time")).filter(|time| !time.is_empty()),
            fields: read(fields)?,
        };
        (!decoded.api_version.is_empty()).then_some(decoded)
    }

    fn encode(self) -> Value {
        let mut entry = Map::new();
        let mut put = |name: &str, text: String| {
            if !text.is_empty() {
                entry.insert(name.to_owned(), Value::String(text));
            }
        };
        put("manager", self.manager);
        put("operation", self.operation.text().to_owned());
        put("apiVersion", self.api_version);
        put("subresource", self.subresource);
        put("time", self.time.unwrap_or_default());
        put("fieldsType", "FieldsV1".to_owned());
        entry.insert("fieldsV1".to_owned(), Value::Object(self.fields));
        Value::Object(entry)
    }
}

/// Returns the managedFields of an object, if it has any.
pub(super) fn managed_fields_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields").filter(|list| !list.is_null())
}

/// Removes the managedFields from an object and returns them.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields").filter(|list| !list.is_null())
}

/// Writes entries into an object.
pub(super) fn put(object: &mut Value, entries: Vec<ManagerEntry>) {
    let entries = encode(entries);
    let Value::Object(fields) = object else { return };
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.remove("managedFields");
        metadata.extend(entries.map(|entries| ("managedFields".to_owned(), entries)));
    }
}

/// Parses entries that this server wrote.
pub(super) fn stored(list: Value) -> Vec<ManagerEntry> {
    let Value::Array(list) = list else { return Vec::new() };
    let read = |fields| match fields {
        Value::Object(fields) => Some(fields),
        _ => Some(FieldSet::new()),
    };
    list.into_iter().filter_map(|entry| ManagerEntry::decode(entry, read)).collect()
}

/// Parses entries that a client sent; `None` if they cannot be parsed.
pub(super) fn sent(list: Value) -> Option<Vec<ManagerEntry>> {
    let Value::Array(list) = list else { return None };
    list.into_iter()
        .map(|entry| ManagerEntry::decode(entry, |fields| field_set::parse(&fields).ok()))
        .collect()
}

/// Returns whether a client requests the removal of all managers: an empty list, or one empty entry.
pub(super) fn is_reset(list: &Value) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(Value::is_null),
        _ => false,
    }
}

/// Returns the sorted list of entries; `None` if there are none.
pub(super) fn encode(mut entries: Vec<ManagerEntry>) -> Option<Value> {
    entries.retain(|entry| !entry.fields.is_empty());
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(|left, right| left.rank().cmp(&right.rank()));
    Some(entries.into_iter().map(ManagerEntry::encode).collect())
}

/// Merges the oldest updaters of one API version into one, until the limit is met.
pub(super) fn cap(entries: &mut Vec<ManagerEntry>) {
    let is_updater = |entry: &ManagerEntry| entry.operation == ManagerOperation::Update;
    let mut excess = entries.iter().filter(|entry| is_updater(entry)).count().saturating_sub(UPDATERS_MAX);
    if excess == 0 {
        return;
    }
    entries.sort_by(|left, right| (&left.time, left.identity()).cmp(&(&right.time, right.identity())));
    let mut kept: Vec<ManagerEntry> = Vec::with_capacity(entries.len());
    // The position of the oldest updater of each API version: a client may send thousands of versions.
    let mut oldest: HashMap<String, usize> = HashMap::new();
    for entry in entries.drain(..) {
        let bucket = oldest.get(&entry.api_version).and_then(|at| kept.get_mut(*at));
        match bucket {
            Some(bucket) if excess > 0 && is_updater(&entry) => {
                ANCIENT.clone_into(&mut bucket.manager);
                bucket.subresource.clear();
                bucket.time = entry.time;
                field_set::add(&mut bucket.fields, &entry.fields);
                excess -= 1;
            }
            _ => {
                if is_updater(&entry) {
                    oldest.entry(entry.api_version.clone()).or_insert(kept.len());
                }
                kept.push(entry);
            }
        }
    }
    *entries = kept;
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields})
    }

    #[test]
    fn entries_survive_and_are_sorted() {
        let list = json!([
            entry("b", "Apply", "2020-01-01T00:00:01Z", json!({"f:a": {}})),
            entry("a", "Apply", "2020-01-01T00:00:02Z", json!({"f:a": {}})),
            entry("a", "Update", "2020-01-01T00:00:00Z", json!({"f:a": {"f:b": {}}})),
        ]);
        let mut reversed = list.as_array().expect("a list").clone();
        reversed.reverse();
        assert_eq!(encode(stored(reversed.into())), Some(list.clone()));
        assert_eq!(sent(list.clone()).and_then(encode), Some(list));
        assert_eq!(encode(Vec::new()), None);
        assert_eq!(encode(stored(json!([entry("a", "Apply", "", json!({}))]))), None);
    }

    #[test]
    fn what_a_client_sends_is_checked() {
        let good = entry("a", "Update", "", json!({"k:{\"n\": 1}": {}}));
        let read = sent(json!([good])).expect("readable");
        assert_eq!(read[0].fields.keys().collect::<Vec<_>>(), ["k:{\"n\":1}"]);
        for (name, value) in [
            ("operation", json!("Frobnicate")),
            ("apiVersion", json!("")),
            ("fieldsType", json!("FieldsV2")),
            ("fieldsV1", json!({"data": {}})),
        ] {
            let mut bad = good.clone();
            bad[name] = value;
            assert!(sent(json!([bad])).is_none(), "{name}");
        }
        assert!(is_reset(&json!([])) && is_reset(&json!([{}])) && !is_reset(&json!([good])));
    }

    #[test]
    fn old_updaters_are_merged() {
        let time = |second: usize| format!("2020-01-01T00:00:{second:02}Z");
        let updaters = (0..13)
            .map(|at| entry(&format!("m{at:02}"), "Update", &time(at), json!({format!("f:{at}"): {}})));
        let mut entries =
            stored(updaters.chain([entry("z", "Apply", &time(0), json!({"f:z": {}}))]).collect());
        cap(&mut entries);
        let updaters =
            entries.iter().filter(|entry| entry.operation == ManagerOperation::Update).collect::<Vec<_>>();
        assert_eq!(updaters.len(), UPDATERS_MAX);
        assert_eq!((&*updaters[0].manager, updaters[0].time.clone()), (ANCIENT, Some(time(3))));
        assert_eq!(
            Value::Object(updaters[0].fields.clone()),
            json!({"f:0": {}, "f:1": {}, "f:2": {}, "f:3": {}})
        );
        assert_eq!(updaters[1].manager, "m04");
        assert_eq!(entries.len(), UPDATERS_MAX + 1);
    }
}
