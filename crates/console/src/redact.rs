//! Removes what no page may show: the values of Secrets. Names and sizes stay.

use serde_json::{Value, json};

use crate::kinds::WatchedKind;

/// Annotations that hold a copy of the whole object.
const COPIES: &[&str] = &["kubectl.kubernetes.io/last-applied-configuration"];

/// Returns the object as it may be shown.
pub(crate) fn redact(kind: &WatchedKind, mut object: Value) -> Value {
    if !(kind.group.is_empty() && kind.resource == "secrets") {
        return object;
    }
    for field in ["data", "stringData"] {
        if let Some(values) = object[field].as_object_mut() {
            for value in values.values_mut() {
                *value = json!(describe_size(value, field == "data"));
            }
        }
    }
    if let Some(annotations) = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !COPIES.contains(&name.as_str()));
    }
    object
}

fn describe_size(value: &Value, is_base64: bool) -> String {
    let letters = value.as_str().unwrap_or_default();
    let padding = letters.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = if is_base64 { (letters.len() / 4 * 3).saturating_sub(padding) } else { letters.len() };
    format!("({bytes} bytes, not shown)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_secret_is_left() {
        let kind = |resource: &str| WatchedKind {
            group: String::new(),
            version: "v1".into(),
            resource: resource.into(),
            kind: String::new(),
            is_namespaced: true,
        };
        let object = json!({
            "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":\"c2VjcmV0\"}", "a": "b"}},
            "data": {"password": "c2VjcmV0", "empty": ""}, "stringData": {"plain": "secret"},
        });
        assert_eq!(
            redact(&kind("secrets"), object.clone()),
            json!({
                "metadata": {"annotations": {"a": "b"}},
                "data": {"password": "(6 bytes, not shown)", "empty": "(0 bytes, not shown)"},
                "stringData": {"plain": "(6 bytes, not shown)"},
            })
        );
        assert_eq!(redact(&kind("configmaps"), object.clone()), object);
    }
}
