//! Handles the steps of a field path, spelled as in `FieldsV1`: `f:spec`, `k:{"name":"a"}`, `v:"x"`, `i:0`.
//!
//! **Invariant:** one step has one spelling (keys sorted, no spaces, strings escaped as Go escapes them), so sets can
//! compare steps as strings. [`canonical`] converts steps from clients to that spelling.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Write;

use serde_json::{Map, Value};

use crate::schema::{Schema, SchemaType};

/// Returns the step to a field.
pub(super) fn field(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    text.push_str("f:");
    text.push_str(name);
    text
}

/// Returns the step to an element of a set; fails if the element is not a scalar.
pub(super) fn of_value(item: &Value) -> Result<String, String> {
    let why = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => {
            let mut text = String::from("v:");
            push_json(&mut text, scalar);
            return Ok(text);
        }
    };
    Err(why.to_owned())
}

/// Returns the step to an element of a list with keys. An absent key takes the default of its schema, or is left out.
pub(super) fn of_keys(item: &Value, keys: &[Box<str>], schema: Option<&Schema>) -> Result<String, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut sorted = keys.iter().map(|key| &**key).collect::<Vec<_>>();
    sorted.sort_unstable();
    let mut text = String::from("k:{");
    for key in sorted {
        let Some(value) = fields.get(key).or_else(|| default_of(schema?, key)) else { continue };
        text.push_str(if text.len() > "k:{".len() { ",\"" } else { "\"" });
        text.push_str(key);
        text.push_str("\":");
        push_json(&mut text, value);
    }
    if text.len() == "k:{".len() {
        let listed = keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(" ");
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{listed}] (and doesn't have default values for any key fields)"
        ));
    }
    text.push('}');
    Ok(text)
}

fn default_of<'s>(schema: &'s Schema, key: &str) -> Option<&'s Value> {
    match &schema.kind {
        SchemaType::Object(object) => object.properties.get(key)?.schema.default.as_ref(),
        _ => None,
    }
}

/// Appends compact JSON, escaping the characters that Go escapes.
fn push_json(text: &mut String, value: &Value) {
    match value {
        Value::String(plain) if plain.bytes().all(is_plain) => {
            text.push('"');
            text.push_str(plain);
            text.push('"');
        }
        other => text.push_str(&escaped(&other.to_string())),
    }
}

fn is_plain(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&')
}

/// Returns JSON text as Go's encoder writes it, safe to embed in HTML.
pub(super) fn escaped(json: &str) -> Cow<'_, str> {
    const UNSAFE: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];
    if !json.contains(UNSAFE) {
        return json.into();
    }
    let mut text = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if UNSAFE.contains(&letter) {
            write!(text, "\\u{:04x}", u32::from(letter)).expect("writing to a string");
        } else {
            text.push(letter);
        }
    }
    text.into()
}

/// Converts a step from a client to the canonical spelling. `Ok(None)` means an unknown kind of step, which is dropped.
pub(super) fn canonical(step: &str) -> Result<Option<String>, String> {
    let (sort, rest) = step.split_once(':').filter(|(sort, _)| sort.len() == 1).ok_or("missing colon")?;
    let parsed = |rest| serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
    match sort {
        "f" => Ok(Some(step.to_owned())),
        "v" => {
            let mut text = String::from("v:");
            push_json(&mut text, &parsed(rest)?);
            Ok(Some(text))
        }
        "k" => {
            let mut text = String::from("k:");
            let keys = serde_json::from_str::<Map<String, Value>>(rest).map_err(|error| error.to_string())?;
            text.push_str(&escaped(&Value::Object(keys).to_string()));
            Ok(Some(text))
        }
        "i" => {
            rest.parse::<i64>().map_err(|error| error.to_string())?;
            Ok(Some(step.to_owned()))
        }
        _ => Ok(None),
    }
}

/// Returns a step as messages show it: `.spec`, `[name="a"]`, `[="x"]`, `[0]`.
pub(super) fn shown(step: &str) -> String {
    match step.split_at_checked(2) {
        Some(("f:", name)) => format!(".{name}"),
        Some(("k:", keys)) => {
            let keys = serde_json::from_str::<Map<String, Value>>(keys).unwrap_or_default();
            let listed = keys.iter().map(|(name, value)| format!("{name}={}", shown_value(value)));
            format!("[{}]", listed.collect::<Vec<_>>().join(","))
        }
        Some(("v:", value)) => {
            format!("[={}]", shown_value(&serde_json::from_str(value).unwrap_or_default()))
        }
        Some(("i:", index)) => format!("[{index}]"),
        _ => step.to_owned(),
    }
}

fn shown_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.to_string(),
    }
}

/// The order of steps: fields, keys, values, indexes; numbers inside keys by their value. Parsed only once, so that
/// sorting many steps does not parse them repeatedly.
pub(super) struct StepRank<'s> {
    sort: Option<usize>,
    text: &'s str,
    value: Option<Value>,
}

impl<'s> StepRank<'s> {
    pub(super) fn of(step: &'s str) -> Self {
        let sort = "fkvi".find(step.chars().next().unwrap_or(' '));
        let value = match step.split_at_checked(2) {
            Some(("k:" | "v:" | "i:", rest)) => Some(serde_json::from_str(rest).unwrap_or_default()),
            _ => None,
        };
        Self { sort, text: step, value }
    }

    pub(super) fn cmp(&self, other: &Self) -> Ordering {
        self.sort.cmp(&other.sort).then_with(|| match (&self.value, &other.value) {
            (Some(left), Some(right)) => order_values(left, right),
            _ => self.text.cmp(other.text),
        })
    }
}

fn order_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right);
            pairs
                .map(|((left_name, left), (right_name, right))| {
                    left_name.cmp(right_name).then_with(|| order_values(left, right))
                })
                .find(|order| order.is_ne())
                .unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (left, right) => left.to_string().cmp(&right.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::patch::test_schemas::{number, object, text};

    #[test]
    fn keys_are_sorted_defaulted_and_escaped() {
        let mut protocol = text();
        protocol.schema = Schema { default: Some(json!("TCP")), ..Schema::default() }.into();
        let schema = object([("port", number()), ("protocol", protocol)]);
        let keys = ["protocol".into(), "port".into()];
        let check = |item: Value, expected: Result<&str, &str>| {
            let found = of_keys(&item, &keys, Some(&schema));
            assert_eq!(found.as_deref().map_err(|error| &**error), expected, "{item}");
        };
        check(json!({"port": 80}), Ok(r#"k:{"port":80,"protocol":"TCP"}"#));
        check(json!({"port": 80, "protocol": "<b>"}), Ok(r#"k:{"port":80,"protocol":"\u003cb\u003e"}"#));
        check(json!({}), Ok(r#"k:{"protocol":"TCP"}"#));
        check(json!(null), Err("associative list with keys may not have a null element"));
        check(json!(1), Err("associative list with keys may not have non-map elements"));
        let missing = of_keys(&json!({}), &keys, None).expect_err("no key");
        assert!(missing.contains(r#"omits all key fields ["protocol" "port"]"#), "{missing}");
    }

    #[test]
    fn steps_print_as_kubernetes_prints_them() {
        let rows = [
            ("f:data", ".data"),
            (r#"k:{"port":80,"protocol":"TCP"}"#, r#"[port=80,protocol="TCP"]"#),
            (r#"v:"x""#, r#"[="x"]"#),
            ("v:1", "[=1]"),
            ("i:3", "[3]"),
        ];
        for (step, expected) in rows {
            assert_eq!(shown(step), expected);
        }
    }

    #[test]
    fn other_spellings_are_brought_to_ours() {
        let rows = [
            (r#"k:{"b": 1, "a": "x"}"#, Ok(Some(r#"k:{"a":"x","b":1}"#))),
            (r#"v: "<""#, Ok(Some(r#"v:"\u003c""#))),
            ("f:a b", Ok(Some("f:a b"))),
            ("i:1", Ok(Some("i:1"))),
            ("x:1", Ok(None)),
        ];
        for (step, expected) in rows {
            assert_eq!(canonical(step).as_ref().map(Option::as_deref), expected.as_ref().copied(), "{step}");
        }
        for wrong in ["data", "k:1", "v:{", "i:x", ""] {
            assert!(canonical(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_in_keys_order_by_value() {
        let mut steps = [r#"v:"a""#, r#"k:{"port":443}"#, "f:b", "i:10", r#"k:{"port":80}"#, "f:a", "i:9"];
        steps.sort_by(|left, right| StepRank::of(left).cmp(&StepRank::of(right)));
        assert_eq!(steps, ["f:a", "f:b", r#"k:{"port":80}"#, r#"k:{"port":443}"#, r#"v:"a""#, "i:9", "i:10"]);
    }
}
