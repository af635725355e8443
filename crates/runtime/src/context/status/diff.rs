//! Determines the changes that a status patch makes, for the journal: they are read from the operations that are sent,
//! without comparing objects.

use homeostat_core::{FieldDiff, Key};
use serde_json::Value;

use super::json_patch::StatusBasis;

/// Returns the changes that these operations make to the snapshot's status.
pub(super) fn operations_diff(target: &Key, snapshot: &StatusBasis, operations: &[Value]) -> FieldDiff {
    let mut diff = FieldDiff::default();
    for operation in operations.iter().filter(|operation| operation["op"] != "test") {
        let Some(path) = operation["path"].as_str().and_then(|path| path.strip_prefix("/status")) else {
            continue;
        };
        let (steps, old) = locate(&snapshot.status, path, &operation["value"]);
        let steps: Vec<&str> = std::iter::once("status").chain(steps.iter().map(String::as_str)).collect();
        diff.extend(FieldDiff::of_field(target, &steps, old, operation.get("value")));
    }
    diff
}

/// Follows a JSON pointer, and returns its steps in readable form and the value it points to. `new` names an item that
/// is added to a list.
fn locate<'a>(root: &'a Value, pointer: &str, new: &Value) -> (Vec<String>, Option<&'a Value>) {
    let (mut steps, mut value) = (Vec::new(), Some(root));
    for name in pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")) {
        let parent = value;
        value = parent.and_then(|parent| match parent {
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            parent => parent.get(&name),
        });
        let is_item = parent.is_some_and(Value::is_array);
        steps.push(if is_item { format!("[{}]", name_of_item(value.unwrap_or(new), &name)) } else { name });
    }
    (steps, value.filter(|value| !value.is_null()))
}

fn name_of_item<'a>(item: &'a Value, index: &'a str) -> &'a str {
    item["type"].as_str().or_else(|| item["name"].as_str()).unwrap_or(index)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_are_told_as_fields() {
        let target = Key::new("demo.dev", "pages", "a", "x");
        let snapshot = StatusBasis::whole(json!({"status": {
            "url": "a", "conditions": [{"type": "Ready", "status": "True"}],
        }}));
        let check = |operations: Value, expected: &str| {
            let operations = operations.as_array().expect("a list");
            assert_eq!(operations_diff(&target, &snapshot, operations).to_string(), expected);
        };
        check(
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "u"},
                {"op": "add", "path": "/status/url", "value": "b"},
                {"op": "add", "path": "/status/conditions/0/status", "value": "False"},
            ]),
            "status.url \"a\" → \"b\", status.conditions[Ready].status \"True\" → \"False\"",
        );
        check(json!([{"op": "remove", "path": "/status/url"}]), "status.url removed");
        check(
            json!([{"op": "add", "path": "/status/conditions/-", "value": {"type": "New", "status": "True"}}]),
            "status.conditions[New].status = \"True\", status.conditions[New].type = \"New\"",
        );
    }
}
