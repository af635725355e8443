//! Explains why an object cannot be decoded, naming the field: ``spec.content: invalid type: integer `7`, expected a
//! string``. The decoder's own message names a line and a column in a text that the user has never seen.
//!
//! The path of the field is found in the text, from the position that the decoder names, so that no type is compiled
//! for a second decoder. This module never decides whether an object can be decoded.

use std::ops::Range;

use serde_json::Error;

use super::json_scan::{ScannedField, fields, first, items};
use crate::kind::KindInfo;
use crate::panics::catch_panic;

/// Explains to people why an object cannot be decoded as this kind; `error` is the decoder's error.
pub(super) fn explain(info: &KindInfo, text: &str, error: &Error) -> String {
    let words = words_of(error);
    let mut way = way_to(text, offset(text, error));
    // An error that a type reports about a value it has read is noticed only at the end of the enclosing object.
    if !words.starts_with("missing field")
        && let Some(last) = way.object.clone().and_then(|object| fields(text, object.start).last())
        && way.is_at_end
        && is_blamed(info, text, &last, &words)
    {
        way.steps.push(step(&text[last.name]));
    }
    match way.steps.concat().trim_start_matches('.') {
        "" => words,
        way => format!("{way}: {words}"),
    }
}

/// Returns the decoder's message, without the position.
fn words_of(error: &Error) -> String {
    let (words, place) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
    words.strip_suffix(&place).map(str::to_owned).unwrap_or(words)
}

/// Returns the position that the decoder had reached in the text.
fn offset(text: &str, error: &Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    lines.map(str::len).sum::<usize>() + error.column()
}

/// The path to a position in the text.
#[derive(Default)]
struct JsonPath {
    steps: Vec<String>,
    /// The innermost object around the position, if the position is inside an object but not inside one of its values.
    object: Option<Range<usize>>,
    /// Whether the position is where that object ends.
    is_at_end: bool,
}

fn way_to(text: &str, offset: usize) -> JsonPath {
    let mut way = JsonPath::default();
    let mut value = first(text)..text.trim_end().len();
    let holds = |range: &Range<usize>| range.start <= offset && offset <= range.end;
    loop {
        // If a value is refused at its first character, none of it has been read.
        let is_inside = offset > value.start;
        let field = fields(text, value.start).find(|field| is_inside && offset <= field.value.end);
        let item = items(text, value.start).enumerate().find(|(_, item)| holds(item));
        match (field, item) {
            (Some(ScannedField { name, value: inner }), _) => {
                let is_value = holds(&inner);
                way.steps.push(step(&text[name]));
                if !is_value {
                    return way;
                }
                value = inner;
            }
            (None, Some((index, item))) => {
                way.steps.push(format!("[{index}]"));
                value = item;
            }
            (None, None) => {
                way.is_at_end = offset == value.end;
                way.object = Some(value);
                return way;
            }
        }
    }
}

/// Returns whether the decoder's message would differ without this field.
fn is_blamed(info: &KindInfo, text: &str, field: &ScannedField, words: &str) -> bool {
    let comma = text[..field.name.start].trim_end().strip_suffix(',');
    let before = comma.unwrap_or(&text[..field.name.start]);
    let without = [before, &text[field.value.end..]].concat();
    match catch_panic(|| (info.decode)(&without)) {
        Ok(Err(error)) => words_of(&error) != words,
        Ok(Ok(_)) | Err(_) => true,
    }
}

/// Returns a field as one step of a path; its name includes the quotes.
fn step(name: &str) -> String {
    let field = serde_json::from_str::<String>(name).unwrap_or_else(|_| name.to_owned());
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '$');
    if field.chars().all(is_plain) { format!(".{field}") } else { format!("[{field:?}]") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::{Value, json};

    use super::*;
    use crate::kind::info;
    use crate::watch::trim_managed_fields::without_managed_fields;

    #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[kube(group = "test.dev", version = "v1", kind = "Odd", namespaced)]
    #[serde(rename_all = "camelCase")]
    struct OddSpec {
        content: String,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        by_number: BTreeMap<u8, Option<u8>>,
        #[serde(default)]
        by_name: BTreeMap<String, bool>,
        choice: Option<Choice>,
        even: Option<Even>,
    }

    #[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
    struct Part {
        size: u8,
    }

    #[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
    enum Choice {
        One,
        Two(u8),
    }

    #[derive(Serialize, Deserialize, Clone, Debug, JsonSchema)]
    #[serde(try_from = "u8")]
    struct Even(u8);

    impl TryFrom<u8> for Even {
        type Error = String;

        fn try_from(number: u8) -> Result<Self, String> {
            if number.is_multiple_of(2) { Ok(Self(number)) } else { Err(format!("{number} is odd")) }
        }
    }

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(object: Value, expected: &str) {
        for text in [object.to_string(), format!("{object:#}\n")] {
            let text = without_managed_fields(&text);
            let error = (info::<Odd>().decode)(&text).expect_err("it does not decode");
            assert_eq!(explain(info::<Odd>(), &text, &error), expected);
        }
    }

    /// Returns an object with this field next to a valid spec.
    fn with(field: &str, value: Value) -> Value {
        let mut object = json!({"metadata": {"managedFields": "skipped"}, "spec": {"content": "x"}});
        object["spec"][field] = value;
        object
    }

    #[test]
    fn the_field_is_named() {
        check(with("content", json!(7)), "spec.content: invalid type: integer `7`, expected a string");
        check(with("content", json!([7])), "spec.content: invalid type: sequence, expected a string");
        check(with("content", json!({"a": 7})), "spec.content: invalid type: map, expected a string");
        check(with("parts", json!([{"size": 1}, {}])), "spec.parts[1]: missing field `size`");
        check(
            with("parts", json!([{"size": 256}])),
            "spec.parts[0].size: invalid value: integer `256`, expected u8",
        );
        check(
            with("byNumber", json!({"1": 2, "2": "two"})),
            "spec.byNumber.2: invalid type: string \"two\", expected u8",
        );
        check(
            with("byName", json!({"app.kubernetes.io/name": 1})),
            "spec.byName[\"app.kubernetes.io/name\"]: invalid type: integer `1`, expected a boolean",
        );
        check(
            with("choice", json!("Three")),
            "spec.choice: unknown variant `Three`, expected `One` or `Two`",
        );
        check(json!({"metadata": {}}), "missing field `spec`");
        check(json!({"metadata": {}, "spec": {}}), "spec: missing field `content`");
        check(
            json!({"metadata": {"labels": {"a": 1}}, "spec": {"content": "x"}}),
            "metadata.labels.a: invalid type: integer `1`, expected a string",
        );
    }

    #[test]
    fn a_value_that_its_type_refuses_is_named_wherever_it_is() {
        check(with("even", json!(7)), "spec.even: 7 is odd");
        let mut first = with("even", json!(7));
        first["spec"]["parts"] = json!([]);
        check(first, "spec.even: 7 is odd");
    }
}
