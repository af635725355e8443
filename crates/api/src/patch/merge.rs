//! Implements JSON merge patch (RFC 7386) as kube-apiserver's library does.
//!
//! **Invariant:** a merge never adds null to an object; null removes. One deviation from the RFC is kept because
//! clients can see it: objects inside a list that is new (or replaces a scalar or a list) also lose their null fields,
//! while nulls that are list elements stay.

use serde_json::{Map, Value};

use crate::status::Status;

/// Merges `patch` into `target`. The patch as a whole must be an object.
pub fn apply(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let fields = match patch {
        Value::Object(fields) => fields,
        Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
        other => return Err(super::not_an_object("error decoding patch: ", other)),
    };
    merge_fields(object_at(target), fields);
    Ok(())
}

/// Returns the object at `target`, replacing any other value with an empty object.
fn object_at(target: &mut Value) -> &mut Map<String, Value> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    target.as_object_mut().expect("an object was just put there")
}

fn merge_fields(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, change) in patch {
        match (change, target.get_mut(name)) {
            (Value::Null, _) => {
                target.remove(name);
            }
            (Value::Object(fields), Some(Value::Object(present))) => merge_fields(present, fields),
            (_, Some(present @ Value::Object(_))) => *present = change.clone(),
            (_, Some(present)) => *present = without_nulls(change),
            (_, None) => {
                target.insert(name.clone(), without_nulls(change));
            }
        }
    }
}

/// Returns a copy without the null fields of objects at any depth.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows are written in place with json!")]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: Value, patch: Value, after: Value) {
        let mut target = before;
        apply(&mut target, &patch).expect("the patch is an object");
        assert_eq!(target, after, "patch {patch}");
    }

    #[track_caller]
    fn check_refused(patch: Value, message: &str) {
        let status = apply(&mut json!({}), &patch).expect_err("the patch is no object");
        assert_eq!((status.code, &*status.message), (400, message));
    }

    #[test]
    fn fields_are_set_changed_and_removed() {
        let before = json!({"metadata": {"labels": {"x": "1"}}, "data": {"k": "1", "m": "2"}});
        check(
            before.clone(),
            json!({"data": {"k": "9", "m": null, "n": "3"}}),
            json!({"metadata": {"labels": {"x": "1"}}, "data": {"k": "9", "n": "3"}}),
        );
        check(before.clone(), json!({"metadata": {"labels": null}, "data": null}), json!({"metadata": {}}));
        check(before.clone(), json!({"absent": null}), before.clone());
        check(before.clone(), json!({}), before);
    }

    #[test]
    fn objects_merge_at_any_depth_and_everything_else_is_replaced() {
        let before = json!({"o": {"a": 1, "b": {"c": 2}}, "l": [{"name": "x", "v": 1}, {"name": "y"}]});
        check(
            before.clone(),
            json!({"o": {"b": {"c": null, "d": 3}}}),
            json!({"o": {"a": 1, "b": {"d": 3}}, "l": [{"name": "x", "v": 1}, {"name": "y"}]}),
        );
        check(before.clone(), json!({"o": null, "l": [{"name": "x"}]}), json!({"l": [{"name": "x"}]}));
        check(json!({"o": {"a": 1}}), json!({"o": [1]}), json!({"o": [1]}));
        check(json!({"o": [1]}), json!({"o": {"a": {"b": null}}}), json!({"o": {"a": {}}}));
        check(json!({}), json!({"n": {"d": {"n": null, "k": 1}}}), json!({"n": {"d": {"k": 1}}}));
    }

    #[test]
    fn nulls_inside_lists_follow_the_library() {
        check(json!({}), json!({"l": [null, {"a": null}]}), json!({"l": [null, {}]}));
        check(json!({"l": [1]}), json!({"l": [null, {"a": null}]}), json!({"l": [null, {}]}));
        check(json!({"l": {}}), json!({"l": [{"a": null}]}), json!({"l": [{"a": null}]}));
    }

    #[test]
    fn only_an_object_is_a_patch() {
        let text = "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}";
        check_refused(json!([1, 2]), text);
        check_refused(json!("str"), &text.replace("array", "string"));
        check_refused(json!(1), &text.replace("array", "number"));
        check_refused(json!(null), "Invalid JSON Patch");
    }
}
