//! Label selectors inside objects: are they well-formed, and do they match?

use serde_json::Value;

use super::at::{At, Errors};
use crate::kinds::fill::{items, text};
use crate::kinds::names;

/// Complains about a malformed label selector; an absent one is fine.
pub(in crate::kinds) fn check(selector: &At<'_>, errors: &mut Errors) {
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

/// Does the selector say nothing?
pub(in crate::kinds) fn is_empty(selector: &At<'_>) -> bool {
    selector.field("matchLabels").len() + selector.field("matchExpressions").len() == 0
}

/// Does a selector match labels? An absent one matches nothing.
pub(in crate::kinds) fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let wanted = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut expressions = items(selector, "matchExpressions").iter();
    wanted.into_iter().all(|(key, value)| label(key) == value.as_str())
        && expressions.all(|expression| {
            let present = label(text(expression, "key"));
            let is_listed = items(expression, "values").iter().any(|value| value.as_str() == present);
            match text(expression, "operator") {
                "In" => present.is_some() && is_listed,
                "NotIn" => present.is_none() || !is_listed,
                "Exists" => present.is_some(),
                "DoesNotExist" => present.is_none(),
                _ => false,
            }
        })
}
