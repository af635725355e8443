//! Validates and matches label selectors inside objects.

use serde_json::Value;

use crate::names;
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

/// Validates a label selector, if there is one.
pub(in crate::kinds) fn validate_label_selector(selector: &ValueAt<'_>, errors: &mut Errors) {
    selector.field("matchLabels").must_be_labels(errors);
    for expression in selector.field("matchExpressions").items() {
        let (key, values) = (expression.field("key"), expression.field("values"));
        key.must_be_named(names::qualified, errors);
        match expression.field("operator").text() {
            "In" | "NotIn" if values.len() == 0 => {
                values.required("must be specified when `operator` is 'In' or 'NotIn'", errors);
            }
            "In" | "NotIn" => {
                for value in values.items() {
                    value.must_pass(names::label_value, errors);
                }
            }
            "Exists" | "DoesNotExist" if values.len() > 0 => {
                values
                    .forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'", errors);
            }
            "Exists" | "DoesNotExist" => {}
            _ => expression.field("operator").invalid("not a valid selector operator", errors),
        }
    }
}

/// Returns whether the selector is empty.
pub(in crate::kinds) fn is_empty(selector: &ValueAt<'_>) -> bool {
    selector.field("matchLabels").len() + selector.field("matchExpressions").len() == 0
}

/// Returns whether a selector matches labels. An absent one matches nothing.
pub(in crate::kinds) fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = read::list_at(selector, "matchExpressions").iter();
    wanted.into_iter().all(|(key, value)| label(key) == value.as_str())
        && expressions.all(|expression| {
            let present = label(read::string_at(expression, "key"));
            let is_listed = read::list_at(expression, "values").iter().any(|value| value.as_str() == present);
            match read::string_at(expression, "operator") {
                "In" => present.is_some() && is_listed,
                "NotIn" => present.is_none() || !is_listed,
                "Exists" => present.is_some(),
                "DoesNotExist" => present.is_none(),
                _ => false,
            }
        })
}
