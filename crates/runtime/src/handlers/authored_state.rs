//! The authored state of an object is the part that its author wrote, without the parts that the server, controllers
//! and the operator write. Two objects with the same authored state are the same to a handler.
//!
//! It is everything except `status`, and only labels and annotations of the metadata. Annotations that are copies of
//! the object (ours and kubectl's) are left out: otherwise each record would be a change that has to be recorded in
//! turn.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::json_diff::without_nulls;
use crate::kind::KindInfo;
use crate::kind::object::Object;
use crate::shard_assignment::stable_hash;

/// The suffix of every annotation that holds a handler record, from any operator: two operators that handle the same
/// object must not mistake each other's records for edits.
pub(super) const RECORD_SUFFIX: &str = ".handled";

/// The annotation in which `kubectl apply` keeps its own copy of the object.
const KUBECTL_COPY: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The hash of a state, stable across processes, machines and builds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn of_value(value: &Value) -> Self {
        Self(stable_hash(&value.to_string()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
    }
}

/// Returns the authored state of an object.
pub(super) fn essence_of(object: &Object) -> Value {
    essence(object.to_json().unwrap_or_default())
}

/// Returns the authored state of an object in JSON.
fn essence(object: Value) -> Value {
    let Value::Object(mut fields) = without_nulls(object) else { return json!({}) };
    for not_its_own in ["apiVersion", "kind", "status"] {
        fields.remove(not_its_own);
    }
    let metadata = trim(fields.remove("metadata"));
    if !metadata.is_empty() {
        fields.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Value::Object(fields)
}

fn trim(metadata: Option<Value>) -> Map<String, Value> {
    let Some(Value::Object(mut metadata)) = metadata else { return Map::new() };
    metadata.retain(|name, _| matches!(name.as_str(), "labels" | "annotations"));
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.retain(|name, _| !name.ends_with(RECORD_SUFFIX) && name != KUBECTL_COPY);
    }
    metadata.retain(|_, value| value.as_object().is_some_and(|map| !map.is_empty()));
    metadata
}

/// Restores an object of this kind from a stored authored state, with the identity of `like`; `None` if it no longer
/// fits the type.
pub(super) fn revive(info: &KindInfo, essence: &Value, like: &Object) -> Option<Arc<Object>> {
    let mut object = essence.clone();
    let fields = object.as_object_mut()?;
    fields.insert("apiVersion".to_owned(), json!(info.api_version));
    fields.insert("kind".to_owned(), json!(info.kind));
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = json!(like.meta().name);
    if let Some(namespace) = &like.meta().namespace {
        metadata["namespace"] = json!(namespace);
    }
    metadata["uid"] = json!(like.meta().uid);
    (info.decode)(&object.to_string()).ok()
}

/// Returns the state as the current type serializes it, so that a new field with a default does not count as an edit.
pub(super) fn renew(info: &KindInfo, essence: &Value, like: &Object) -> Option<Value> {
    revive(info, essence, like).map(|object| essence_of(&*object))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::kind::info;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(object: Value, expected: Value) {
        assert_eq!(essence(object), expected);
    }

    #[test]
    fn what_the_author_says() {
        check(
            json!({"apiVersion": "v1", "kind": "X", "status": {"a": 1}, "spec": {"b": null}}),
            json!({"spec": {}}),
        );
        check(json!({"metadata": {"name": "x", "resourceVersion": "3", "finalizers": ["f"]}}), json!({}));
        check(json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"labels": {"a": "b"}}}));
        check(
            json!({"metadata": {"annotations": {"o.dev/x.handled": "{}", KUBECTL_COPY: "{}", "mine": "1"}}}),
            json!({"metadata": {"annotations": {"mine": "1"}}}),
        );
        check(json!({"metadata": {"annotations": {"o.dev/x.handled": "{}"}}}), json!({}));
        check(json!({"data": {"a": "b"}}), json!({"data": {"a": "b"}}));
    }

    #[test]
    fn a_fingerprint_survives_json() {
        let fingerprint = Fingerprint::of_value(&json!({"a": 1}));
        let text = serde_json::to_string(&fingerprint).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&text).unwrap(), fingerprint);
        assert_ne!(Fingerprint::of_value(&json!({"a": 2})), fingerprint);
    }

    #[test]
    fn a_stored_essence_becomes_an_object_again() {
        let map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": "m", "namespace": "n"}, "data": {"a": "b"}}))
                .unwrap();
        let back = revive(info::<ConfigMap>(), &essence_of(&map), &map).unwrap();
        let back: &ConfigMap = back.as_type();
        assert_eq!((back.metadata.name.as_deref(), &back.data), (Some("m"), &map.data));
        assert!(revive(info::<ConfigMap>(), &json!({"data": 3}), &map).is_none());
    }
}
