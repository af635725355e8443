//! Compares two states of an object: fields that were changed or added, and fields that were removed.
//!
//! **Invariant:** equal objects yield two empty sets and allocate nothing. A new object is compared with the empty one
//! of its kind: fields that Kubernetes writes even when empty already exist, so they count only if they differ.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::{self, FieldSet, leaf, node};
use super::path_step;
use super::schema_position::{MergeShape, SchemaPosition};

/// The difference between two states.
#[derive(Debug, Default)]
pub(super) struct FieldDifference {
    /// Fields that were added or have a different value.
    pub(super) changed: FieldSet,
    /// Fields that are gone.
    pub(super) removed: FieldSet,
}

impl FieldDifference {
    /// Removes everything below these dotted paths.
    pub(super) fn without(mut self, paths: &[&str]) -> Self {
        field_set::remove_below(&mut self.changed, paths);
        field_set::remove_below(&mut self.removed, paths);
        self
    }
}

/// Returns the difference from `old` to `new`.
pub(super) fn compare(old: &Value, new: &Value, root: SchemaPosition<'_>) -> FieldDifference {
    compare_maps(old.as_object(), new.as_object(), root)
}

/// Returns all fields of a new object.
pub(super) fn created(new: &Value, root: SchemaPosition<'_>, reset: &[&str]) -> FieldSet {
    let mut fields = FieldSet::new();
    for (name, value) in new.as_object().into_iter().flatten() {
        if root.is_tracked(name) && !reset.contains(&name.as_str()) {
            let place = root.field(name);
            fields.extend(
                appeared(value, place, place.is_always_written()).map(|node| (path_step::field(name), node)),
            );
        }
    }
    if reset.iter().any(|path| path.contains('.')) {
        field_set::remove_below(&mut fields, reset);
    }
    fields
}

/// Returns the node of a value that was added (or removed) as a whole. `was_there` is set if its field was previously
/// written but empty.
fn appeared(value: &Value, place: SchemaPosition<'_>, was_there: bool) -> Option<Value> {
    if is_empty(value) {
        return (!was_there).then(leaf);
    }
    match place.shape(value) {
        MergeShape::Leaf => (!was_there || !is_zero(value)).then(leaf),
        MergeShape::Map => node(appeared_fields(value, place, was_there), !was_there),
        MergeShape::List => node(appeared_items(value, place), !was_there),
    }
}

fn appeared_fields(value: &Value, place: SchemaPosition<'_>, was_there: bool) -> FieldSet {
    let fields = value.as_object().into_iter().flatten();
    fields
        .filter(|(name, _)| place.is_tracked(name))
        .filter_map(|(name, value)| {
            let place = place.field(name);
            let node = appeared(value, place, was_there && place.is_always_written())?;
            Some((path_step::field(name), node))
        })
        .collect()
}

fn appeared_items(value: &Value, place: SchemaPosition<'_>) -> FieldSet {
    let mut found = FieldSet::new();
    for item in value.as_array().into_iter().flatten() {
        let Ok(step) = place.step(item) else { continue };
        let node = if found.contains_key(&step) { Some(leaf()) } else { appeared(item, place.item(), false) };
        found.extend(node.map(|node| (step, node)));
    }
    found
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns whether the value is what Go writes for an absent scalar.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(claim) => !claim,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        other => is_empty(other),
    }
}

/// The changed and the removed nodes of one field.
type ChangeNodes = (Option<Value>, Option<Value>);

fn compare_values(old: &Value, new: &Value, place: SchemaPosition<'_>) -> ChangeNodes {
    let old_shape = place.shape(old);
    let shape = if matches!(old_shape, MergeShape::Map) { old_shape } else { place.shape(new) };
    if matches!(shape, MergeShape::Leaf) || is_empty(old) && is_empty(new) {
        return ((!is_same(old, new)).then(leaf), None);
    }
    let difference = match shape {
        MergeShape::List => compare_lists(old, new, place),
        _ => compare_maps(old.as_object(), new.as_object(), place),
    };
    let kind_changed =
        place.is_deduced() && [old, new].iter().any(|value| !value.is_object() && !value.is_null());
    (node(difference.changed, kind_changed), node(difference.removed, false))
}

/// Returns whether two values are equal, comparing numbers by value.
fn is_same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => old == new,
    }
}

fn compare_maps(
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    place: SchemaPosition<'_>,
) -> FieldDifference {
    let mut difference = FieldDifference::default();
    for (name, value) in new.into_iter().flatten().filter(|(name, _)| place.is_tracked(name)) {
        let below = place.field(name);
        let nodes = match old.and_then(|old| old.get(name)) {
            Some(old) => compare_values(old, value, below),
            None => (appeared(value, below, false), None),
        };
        difference.record(nodes, || path_step::field(name));
    }
    let is_gone = |name: &String| new.is_none_or(|new| !new.contains_key(name));
    for (name, value) in old.into_iter().flatten().filter(|(name, _)| is_gone(name) && place.is_tracked(name))
    {
        difference.record((None, appeared(value, place.field(name), false)), || path_step::field(name));
    }
    difference
}

impl FieldDifference {
    fn record(&mut self, (changed, removed): ChangeNodes, step: impl Fn() -> String) {
        self.changed.extend(changed.map(|node| (step(), node)));
        self.removed.extend(removed.map(|node| (step(), node)));
    }
}

fn compare_lists(old: &Value, new: &Value, place: SchemaPosition<'_>) -> FieldDifference {
    let mut difference = FieldDifference::default();
    if old == new {
        return difference;
    }
    let mut elements: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for item in old.as_array().into_iter().flatten() {
        place.step(item).into_iter().for_each(|step| elements.entry(step).or_default().0.push(item));
    }
    for item in new.as_array().into_iter().flatten() {
        place.step(item).into_iter().for_each(|step| elements.entry(step).or_default().1.push(item));
    }
    for (step, (old, new)) in elements {
        let nodes = compare_elements(&old, &new, place.item());
        difference.record(nodes, || step.clone());
    }
    difference
}

/// Compares the elements that share a key. If there are several, they are owned together, without their fields.
fn compare_elements(old: &[&Value], new: &[&Value], place: SchemaPosition<'_>) -> ChangeNodes {
    match (old, new) {
        ([old], [new]) => compare_values(old, new, place),
        ([], [new]) => (appeared(new, place, false), None),
        ([old], []) => (None, appeared(old, place, false)),
        ([old], _) => (Some(leaf()), appeared(old, place, false).and_then(without_self)),
        (_, [new]) => (appeared(new, place, false), Some(leaf())),
        ([], _) => (Some(leaf()), None),
        (_, []) => (None, Some(leaf())),
        _ => ((old != new).then(leaf), None),
    }
}

/// Returns only the children of a node: the element itself stays, as one of several.
fn without_self(node: Value) -> Option<Value> {
    let Value::Object(mut children) = node else { return None };
    children.remove(".");
    field_set::node(children, false)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::patch::test_schemas::widget;
    use crate::schema::built_in;

    #[track_caller]
    fn check(old: Value, new: Value, changed: Value, removed: Value) {
        let schema = widget();
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        let difference = compare(&old, &new, SchemaPosition::root(Some(&schema)));
        let found = (Value::Object(difference.changed), Value::Object(difference.removed));
        assert_eq!(found, (changed, removed), "{old} to {new}");
    }

    #[test]
    fn equal_objects_do_not_differ() {
        let spec = json!({"num": 1, "set": ["x"], "map": [{"k": "a"}], "any": {"a": [1]}, "granular": {}});
        check(spec.clone(), spec, json!({}), json!({}));
        check(json!({"any": 1}), json!({"any": 1.0}), json!({}), json!({}));
    }

    #[test]
    fn fields_come_change_and_go() {
        check(json!({"num": 1}), json!({"num": 2}), json!({"f:spec": {"f:num": {}}}), json!({}));
        check(
            json!({"granular": {"a": "1"}}),
            json!({"free": {"x": "1"}}),
            json!({"f:spec": {"f:free": {".": {}, "f:x": {}}}}),
            json!({"f:spec": {"f:granular": {".": {}, "f:a": {}}}}),
        );
        check(
            json!({"granular": {}}),
            json!({"granular": {"a": "1"}}),
            json!({"f:spec": {"f:granular": {"f:a": {}}}}),
            json!({}),
        );
        check(
            json!({"granular": null}),
            json!({"granular": {}}),
            json!({"f:spec": {"f:granular": {}}}),
            json!({}),
        );
        check(
            json!({"atomicMap": {"a": "1"}}),
            json!({"atomicMap": {"b": "1"}}),
            json!({"f:spec": {"f:atomicMap": {}}}),
            json!({}),
        );
        check(
            json!({"atomic": ["a"]}),
            json!({"atomic": ["b"]}),
            json!({"f:spec": {"f:atomic": {}}}),
            json!({}),
        );
    }

    #[test]
    fn elements_come_change_and_go() {
        check(
            json!({"set": ["x", "y"]}),
            json!({"set": ["y", "z"]}),
            json!({"f:spec": {"f:set": {"v:\"z\"": {}}}}),
            json!({"f:spec": {"f:set": {"v:\"x\"": {}}}}),
        );
        check(
            json!({"map": [{"k": "a", "v": "1"}, {"k": "b"}]}),
            json!({"map": [{"k": "a", "v": "2"}, {"k": "c"}]}),
            json!({"f:spec": {"f:map": {"k:{\"k\":\"a\"}": {"f:v": {}}, "k:{\"k\":\"c\"}": {".": {}, "f:k": {}}}}}),
            json!({"f:spec": {"f:map": {"k:{\"k\":\"b\"}": {".": {}, "f:k": {}}}}}),
        );
        check(json!({"set": ["x", "y"]}), json!({"set": ["y", "x"]}), json!({}), json!({}));
    }

    #[test]
    fn several_elements_of_one_key_are_one() {
        let a = "k:{\"k\":\"a\"}";
        check(
            json!({"map": [{"k": "a"}]}),
            json!({"map": [{"k": "a"}, {"k": "a", "v": "1"}]}),
            json!({"f:spec": {"f:map": {a: {}}}}),
            json!({"f:spec": {"f:map": {a: {"f:k": {}}}}}),
        );
        check(
            json!({"map": [{"k": "a"}, {"k": "a", "v": "1"}]}),
            json!({"map": [{"k": "a", "v": "2"}]}),
            json!({"f:spec": {"f:map": {a: {".": {}, "f:k": {}, "f:v": {}}}}}),
            json!({"f:spec": {"f:map": {a: {}}}}),
        );
        check(
            json!({"map": [{"k": "a"}, {"k": "a", "v": "1"}]}),
            json!({"map": [{"k": "a"}, {"k": "a", "v": "2"}]}),
            json!({"f:spec": {"f:map": {a: {}}}}),
            json!({}),
        );
    }

    #[test]
    fn untyped_values_may_change_their_type() {
        check(
            json!({"any": {"a": 1}}),
            json!({"any": "x"}),
            json!({"f:spec": {"f:any": {}}}),
            json!({"f:spec": {"f:any": {"f:a": {}}}}),
        );
        check(
            json!({"any": "x"}),
            json!({"any": {"a": 1}}),
            json!({"f:spec": {"f:any": {".": {}, "f:a": {}}}}),
            json!({}),
        );
        check(
            json!({"any": {"a": 1}}),
            json!({"any": null}),
            json!({}),
            json!({"f:spec": {"f:any": {"f:a": {}}}}),
        );
    }

    #[test]
    fn a_custom_object_owns_everything_at_creation() {
        let object = json!({"apiVersion": "v1", "kind": "W", "metadata": {"name": "a", "finalizers": ["f"]}, "spec": {"n": 1}, "status": {"x": 1}});
        let expected =
            json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"f\"": {}}}, "f:spec": {".": {}, "f:n": {}}});
        assert_eq!(Value::Object(created(&object, SchemaPosition::root(None), &["status"])), expected);
    }

    #[test]
    fn a_built_in_object_does_not_own_what_is_always_written() {
        let schema = built_in("apps", "v1", "Deployment").expect("a built-in kind");
        let object = json!({"metadata": {"labels": {"l": "1"}}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {}, "ports": [{"containerPort": 80, "protocol": "TCP"}]}]
            }}
        }, "status": {}});
        let expected = json!({"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:spec": {
            "f:replicas": {}, "f:selector": {}, "f:strategy": {"f:type": {}},
            "f:template": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:containers": {
                "k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}, "f:ports": {".": {},
                    "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}}}
            }}}
        }});
        assert_eq!(
            Value::Object(created(&object, SchemaPosition::root(Some(&schema)), &["status"])),
            expected
        );
    }
}
