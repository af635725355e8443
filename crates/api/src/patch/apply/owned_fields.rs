//! Finds the fields that an applied configuration contains, which its manager owns.
//!
//! **Invariant:** leaves, explicit nulls, empty maps, elements and the entries of free maps are owned; the objects
//! and lists that only contain them are not, so two managers can share a parent.

use serde_json::Value;

use super::field_set::{FieldSet, leaf, node};
use super::path_step;
use super::schema_position::{MergeShape, SchemaPosition};

/// Returns the fields of a whole object.
pub(super) fn field_set(object: &Value, root: SchemaPosition<'_>) -> FieldSet {
    match object {
        Value::Object(_) => map_fields(object, root),
        _ => FieldSet::new(),
    }
}

fn fields_of(value: &Value, place: SchemaPosition<'_>, is_member: bool) -> Option<Value> {
    match place.shape(value) {
        MergeShape::Leaf => Some(leaf()),
        MergeShape::Map => node(map_fields(value, place), is_member || is_blank(value)),
        MergeShape::List => node(list_fields(value, place), is_member || value.is_null()),
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn map_fields(value: &Value, place: SchemaPosition<'_>) -> FieldSet {
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| place.is_tracked(name))
        .filter_map(|(name, value)| {
            let owned = fields_of(value, place.field(name), !place.declares(name))?;
            Some((path_step::field(name), owned))
        })
        .collect()
}

fn list_fields(value: &Value, place: SchemaPosition<'_>) -> FieldSet {
    let mut found = FieldSet::new();
    for item in value.as_array().into_iter().flatten() {
        let Ok(step) = place.step(item) else { continue };
        let owned =
            if found.contains_key(&step) { Some(leaf()) } else { fields_of(item, place.item(), true) };
        found.extend(owned.map(|owned| (step, owned)));
    }
    found
}

/// Returns the set extended by the named parents of its members: removing such a member removes the whole named field.
pub(super) fn with_named_parents(set: &FieldSet, place: SchemaPosition<'_>) -> FieldSet {
    let mut named = FieldSet::new();
    for (step, below) in set {
        let Some(children) = below.as_object().filter(|children| !children.is_empty()) else {
            named.insert(step.clone(), below.clone());
            continue;
        };
        let is_named = step.strip_prefix("f:").is_some_and(|name| place.declares(name));
        let is_member = is_named || super::field_set::is_member(below);
        let mut children =
            with_named_parents(children, place.step_into(step).unwrap_or(SchemaPosition::DEDUCED));
        children.remove(".");
        named.extend(node(children, is_member).map(|node| (step.clone(), node)));
    }
    named
}

/// Adapts a set that was written under an older schema: a value that is now a leaf is owned as a whole.
pub(super) fn reconcile(set: &mut FieldSet, place: SchemaPosition<'_>) {
    for (step, below) in set.iter_mut() {
        let Some(next) = place.step_into(step) else { continue };
        let is_leaf_now = !next.is_deduced() && matches!(next.shape(below), MergeShape::Leaf);
        match below.as_object_mut() {
            Some(children) if is_leaf_now => children.clear(),
            Some(children) => reconcile(children, next),
            None => {}
        }
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::patch::test_schemas::widget;

    #[track_caller]
    fn check(spec: Value, expected: Value) {
        let schema = widget();
        let found = field_set(
            &json!({"apiVersion": "v1", "kind": "W", "spec": spec}),
            SchemaPosition::root(Some(&schema)),
        );
        assert_eq!(Value::Object(found), expected, "{spec}");
    }

    #[test]
    fn leaves_and_elements_are_owned_and_their_parents_are_not() {
        check(
            json!({"num": 1, "granular": {"a": "1"}}),
            json!({"f:spec": {"f:num": {}, "f:granular": {"f:a": {}}}}),
        );
        check(json!({"set": ["x", "y"]}), json!({"f:spec": {"f:set": {"v:\"x\"": {}, "v:\"y\"": {}}}}));
        check(
            json!({"map": [{"k": "a", "v": "1"}]}),
            json!({"f:spec": {"f:map": {"k:{\"k\":\"a\"}": {".": {}, "f:k": {}, "f:v": {}}}}}),
        );
        check(
            json!({"multi": [{"port": 80}]}),
            json!({"f:spec": {"f:multi": {"k:{\"port\":80,\"proto\":\"TCP\"}": {".": {}, "f:port": {}}}}}),
        );
        check(
            json!({"atomic": ["x"], "plain": ["p"], "atomicMap": {"a": "1"}, "free": {"f": "1"}}),
            json!({"f:spec": {"f:atomic": {}, "f:plain": {}, "f:atomicMap": {}, "f:free": {"f:f": {}}}}),
        );
    }

    #[test]
    fn nothing_and_null_are_owned_where_they_stand() {
        check(json!({}), json!({"f:spec": {}}));
        check(json!(null), json!({"f:spec": {}}));
        check(
            json!({"free": {}, "granular": null, "set": []}),
            json!({"f:spec": {"f:free": {}, "f:granular": {}}}),
        );
        check(json!({"set": null}), json!({"f:spec": {"f:set": {}}}));
    }

    #[test]
    fn untyped_places_own_maps_by_field_and_lists_whole() {
        check(
            json!({"any": {"a": {"b": 1}, "l": [1]}}),
            json!({"f:spec": {"f:any": {"f:a": {".": {}, "f:b": {}}, "f:l": {}}}}),
        );
    }

    #[test]
    fn duplicates_are_owned_without_their_fields() {
        check(
            json!({"map": [{"k": "a"}, {"k": "a", "v": "1"}]}),
            json!({"f:spec": {"f:map": {"k:{\"k\":\"a\"}": {}}}}),
        );
    }

    #[test]
    fn metadata_has_its_shape_in_every_object() {
        let object =
            json!({"metadata": {"name": "a", "uid": "u", "labels": {"l": "1"}, "finalizers": ["f"]}});
        let expected = json!({"f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"f\"": {}}}});
        assert_eq!(Value::Object(field_set(&object, SchemaPosition::root(None))), expected);
    }

    #[test]
    fn named_parents_are_added_and_elements_are_not() {
        let schema = widget();
        let set = json!({"f:spec": {"f:granular": {"f:a": {}}, "f:map": {"k:{\"k\":\"a\"}": {"f:v": {}}}, "f:free": {"f:x": {}}}});
        let named = with_named_parents(set.as_object().expect("a set"), SchemaPosition::root(Some(&schema)));
        let expected = json!({"f:spec": {
            ".": {}, "f:granular": {".": {}, "f:a": {}},
            "f:map": {".": {}, "k:{\"k\":\"a\"}": {"f:v": {}}}, "f:free": {".": {}, "f:x": {}}
        }});
        assert_eq!(Value::Object(named), expected);
    }

    #[test]
    fn what_became_atomic_is_owned_whole() {
        let schema = widget();
        let mut set = json!({"f:spec": {"f:atomicMap": {"f:a": {}}, "f:atomic": {".": {}, "v:1": {}}, "f:granular": {"f:a": {}}, "f:any": {"f:a": {}}}});
        reconcile(set.as_object_mut().expect("a set"), SchemaPosition::root(Some(&schema)));
        let expected = json!({"f:spec": {"f:atomicMap": {}, "f:atomic": {}, "f:granular": {"f:a": {}}, "f:any": {"f:a": {}}}});
        assert_eq!(set, expected);
    }

    #[test]
    fn built_in_kinds_bring_their_keys_and_defaults() {
        let schema = crate::schema::built_in("", "v1", "Service").expect("a built-in kind");
        let object = json!({
            "metadata": {"finalizers": ["f"], "ownerReferences": [{"uid": "u", "name": "o"}]},
            "spec": {"selector": {"a": "b"}, "ports": [{"name": "a", "port": 80}, {"port": 53, "protocol": "UDP"}]}
        });
        let expected = json!({
            "f:metadata": {"f:finalizers": {"v:\"f\"": {}}, "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}},
            "f:spec": {"f:selector": {}, "f:ports": {
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}},
                "k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}}
            }}
        });
        assert_eq!(Value::Object(field_set(&object, SchemaPosition::root(Some(&schema)))), expected);
    }
}
