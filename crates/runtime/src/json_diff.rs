//! Compares JSON: finds the parts of the desired state that the actual state lacks.

use serde_json::Value;

/// Drops object members that are null: in desired state they mean "not mine", not "null".
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// Returns the paths at which `actual` differs from `desired`. Fields that `desired` does not mention may have any
/// value. Lists must agree item by item, so a list that the server reorders counts as different: this costs an
/// unnecessary apply, but never misses one.
pub(crate) fn differences(desired: &Value, actual: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(desired, actual, &mut String::new(), &mut found);
    found
}

fn compare(desired: &Value, actual: &Value, path: &mut String, found: &mut Vec<String>) {
    match (desired, actual) {
        (Value::Object(desired), Value::Object(actual)) => {
            for (name, wanted) in desired {
                descend(path, name, wanted, actual.get(name).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(desired), Value::Array(actual)) if desired.len() == actual.len() => {
            for (index, (wanted, have)) in desired.iter().zip(actual).enumerate() {
                descend(path, &index.to_string(), wanted, have, found);
            }
        }
        // Types decoded by k8s-openapi omit empty collections.
        (Value::Object(map), Value::Null) if map.is_empty() => {}
        (Value::Array(items), Value::Null) if items.is_empty() => {}
        (desired, actual) if desired == actual => {}
        _ => found.push(path.clone()),
    }
}

fn descend(path: &mut String, name: &str, desired: &Value, actual: &Value, found: &mut Vec<String>) {
    let length = path.len();
    path.push('/');
    path.push_str(name);
    compare(desired, actual, path, found);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn desired_within_actual() {
        #[track_caller]
        fn check(desired: Value, actual: Value, expected: &[&str]) {
            assert_eq!(differences(&desired, &actual), expected);
        }
        check(json!({"a": 1}), json!({"a": 1, "b": 2}), &[]);
        check(json!({"a": {"b": 1}}), json!({"a": {"b": 2}}), &["/a/b"]);
        check(json!({"a": [{"n": 1}]}), json!({"a": [{"n": 1, "default": true}]}), &[]);
        check(json!({"a": [1]}), json!({"a": [1, 2]}), &["/a"]);
        check(json!({"a": {}, "l": []}), json!({}), &[]);
        check(json!({"a": 1, "b": 2}), json!({}), &["/a", "/b"]);
    }
}
