//! Keeps the labels and owners of an object next to its bytes, so that selectors and the garbage collector need not
//! parse it again; and of the objects that tokens depend on, what the check of a token needs.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use homeostat_store::Entry;
use serde::Deserialize;
use serde_json::Value;

use super::token_fields::TokenFields;

/// The labels and owners of one stored object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelsAndOwners {
    /// Labels, sorted by key.
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// The uids of its owners.
    pub(crate) owners: Box<[Box<str>]>,
    /// Read when a token is first checked. An entry has only one view, so this is a part of it.
    token_fields: OnceLock<Option<Arc<TokenFields>>>,
}

#[derive(Deserialize)]
struct ParsedObject {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    labels: BTreeMap<Box<str>, Box<str>>,
    owner_references: Vec<Owner>,
}

#[derive(Deserialize)]
struct Owner {
    uid: Box<str>,
}

impl LabelsAndOwners {
    /// Returns the labels and owners of a parsed object.
    pub(crate) fn from_object(object: &Value) -> Self {
        let metadata = &object["metadata"];
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        Self {
            labels: labels
                .map(|(key, value)| (boxed(key), boxed(value.as_str().unwrap_or_default())))
                .collect(),
            owners: owners.filter_map(|owner| owner["uid"].as_str()).map(boxed).collect(),
            token_fields: OnceLock::new(),
        }
    }

    /// Returns the labels and owners of a stored entry, parsed at most once.
    pub(crate) fn from_entry(entry: &Entry) -> Arc<Self> {
        entry.view(|entry| {
            let shape =
                serde_json::from_slice::<ParsedObject>(&entry.bytes).expect("the server stores only objects");
            Self {
                labels: shape.metadata.labels.into_iter().collect(),
                owners: shape.metadata.owner_references.into_iter().map(|owner| owner.uid).collect(),
                token_fields: OnceLock::new(),
            }
        })
    }

    /// Returns what token checks need from a stored entry, parsed at most once; `None` if it is not an object.
    pub(crate) fn token_fields(entry: &Entry) -> Option<Arc<TokenFields>> {
        let view = Self::from_entry(entry);
        view.token_fields.get_or_init(|| TokenFields::parse(&entry.bytes).map(Arc::new)).clone()
    }

    /// Returns the value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(one, _)| (**one).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

fn boxed(text: &str) -> Box<str> {
    text.into()
}

#[cfg(test)]
mod tests {
    use homeostat_core::{Key, Revision};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_view_is_the_same_from_the_object_and_from_its_bytes() {
        let object = json!({"metadata": {"labels": {"b": "2", "a": "1"}, "ownerReferences": [{"uid": "u"}]}});
        let value = homeostat_store::Value::plain(object.to_string());
        let entry = Entry::new(Key::new("", "pods", "d", "x"), Revision::new(1), &value);
        let view = LabelsAndOwners::from_object(&object);
        assert_eq!(*LabelsAndOwners::from_entry(&entry), view);
        assert_eq!((view.label("b"), view.label("c")), (Some("2"), None));
    }

    #[test]
    fn what_a_token_needs_is_parsed_once() {
        let value = homeostat_store::Value::plain(r#"{"metadata": {"uid": "u"}}"#);
        let entry = Entry::new(Key::new("", "serviceaccounts", "d", "x"), Revision::new(1), &value);
        let [one, other] = [0, 1].map(|_| LabelsAndOwners::token_fields(&entry).unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(&*one.uid, "u");
    }
}
