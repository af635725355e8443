//! Removes the items of a set from an object, to prune it after an apply.
//!
//! **Invariant:** a container that loses its last item but was not itself to be removed becomes null, as in the Go
//! library; decoding drops it again where the kind omits empty fields.

use serde_json::Value;

use super::field_set::{FieldSet, is_member};
use super::path_step;
use super::schema_position::{MergeShape, SchemaPosition};

/// Removes the items of `set` from `value`.
pub(super) fn remove(value: &mut Value, set: &FieldSet, place: SchemaPosition<'_>) {
    let is_emptied = match (place.shape(value), &mut *value) {
        (MergeShape::Map, Value::Object(fields)) => {
            fields.retain(|name, value| stays(value, set.get(&path_step::field(name)), place.field(name)));
            fields.is_empty()
        }
        (MergeShape::List, Value::Array(items)) => {
            items.retain_mut(|item| {
                let found = place.step(item).ok().and_then(|step| set.get(&step));
                stays(item, found, place.item())
            });
            items.is_empty()
        }
        (_, value) => value.is_object() || value.is_array(),
    };
    if is_emptied {
        *value = Value::Null;
    }
}

/// Removes the fields that the node names below this value, and returns whether the value itself stays.
fn stays(value: &mut Value, node: Option<&Value>, place: SchemaPosition<'_>) -> bool {
    match node {
        None => true,
        Some(node) if is_member(node) => false,
        Some(node) => {
            if let Value::Object(below) = node {
                remove(value, below, place);
            }
            true
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
    fn check(spec: Value, set: Value, expected: Value) {
        let schema = widget();
        let mut object = json!({"spec": spec});
        let set = json!({"f:spec": set});
        remove(&mut object, set.as_object().expect("a set"), SchemaPosition::root(Some(&schema)));
        assert_eq!(object, json!({"spec": expected}), "{set}");
    }

    #[test]
    fn items_are_removed_and_emptied_containers_become_null() {
        let spec =
            json!({"num": 1, "granular": {"a": "1"}, "set": ["x", "y"], "map": [{"k": "a", "v": "1"}]});
        check(
            spec.clone(),
            json!({"f:num": {}, "f:absent": {}}),
            json!({"granular": {"a": "1"}, "set": ["x", "y"], "map": [{"k": "a", "v": "1"}]}),
        );
        check(
            spec.clone(),
            json!({"f:granular": {"f:a": {}}, "f:set": {"v:\"x\"": {}}, "f:map": {"k:{\"k\":\"a\"}": {"f:v": {}}}}),
            json!({"num": 1, "granular": null, "set": ["y"], "map": [{"k": "a"}]}),
        );
        check(
            spec,
            json!({"f:map": {"k:{\"k\":\"a\"}": {".": {}, "f:v": {}}}}),
            json!({"num": 1, "granular": {"a": "1"}, "set": ["x", "y"], "map": null}),
        );
    }
}
