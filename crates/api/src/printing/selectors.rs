//! Prints labels and label selectors.

use crate::object::read;
use serde_json::Value;

/// Prints a map of labels: `a=b,c=d`, or `<none>`.
pub(crate) fn labels(value: &Value, path: &str) -> String {
    let pairs = read::object_at(value, path).into_iter().flatten();
    or_none(
        &pairs
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect::<Vec<_>>(),
    )
}

/// Prints a label selector: `a=b,c in (d,e)`, or `<none>`.
pub(crate) fn selector(value: &Value, path: &str) -> String {
    read::value_at(value, path)
        .map_or_else(|| "<none>".to_owned(), |selector| or_none(&requirements(selector)))
}

/// Prints a label selector; an empty selector prints as an empty string.
pub(crate) fn bare(value: &Value, path: &str) -> String {
    read::value_at(value, path).map(requirements).unwrap_or_default().join(",")
}

fn requirements(selector: &Value) -> Vec<String> {
    let labels = read::object_at(selector, "matchLabels").into_iter().flatten();
    let equal =
        labels.map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())));
    let expressions = read::list_at(selector, "matchExpressions").iter();
    let mut all: Vec<_> =
        equal.chain(expressions.map(|one| (read::string_at(one, "key"), expression(one)))).collect();
    all.sort_by(|left, right| left.0.cmp(right.0));
    all.into_iter().map(|(_, text)| text).collect()
}

fn expression(expression: &Value) -> String {
    let key = read::string_at(expression, "key");
    let mut values: Vec<_> = read::list_at(expression, "values").iter().filter_map(Value::as_str).collect();
    values.sort_unstable();
    let values = values.join(",");
    match read::string_at(expression, "operator") {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}

fn or_none(pieces: &[String]) -> String {
    if pieces.is_empty() { "<none>".to_owned() } else { pieces.join(",") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_sorted_by_key() {
        let object = json!({"selector": {"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["z", "y"]},
            {"key": "a", "operator": "In", "values": ["2", "1"]},
            {"key": "d", "operator": "DoesNotExist"}, {"key": "e", "operator": "Exists"}]}});
        assert_eq!(selector(&object, "selector"), "a in (1,2),b=1,c notin (y,z),!d,e");
        assert_eq!((selector(&object, "none"), bare(&object, "none")), ("<none>".into(), String::new()));
        assert_eq!(labels(&json!({"l": {"b": "2", "a": "1"}}), "l"), "a=1,b=2");
    }
}
