//! Parses the body of a request into a [`Value`].
//!
//! **Invariant:** a hostile body costs at most time and memory proportional to its size, and is answered with 400.
//! Protobuf is not decoded here, because that requires the kind's field table.

pub(crate) mod build;
mod json;
mod yaml;
mod yaml_duplicates;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use self::build::WholeFloats;
use crate::field::BoundedTexts;
use crate::object::memory::MEMORY_MAX;
use crate::status::Status;

/// The maximum number of bytes of an invalid body that the response repeats.
const EXCERPT_BYTES_MAX: usize = 30;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// JSON.
    Json,
    /// JSON for a built-in type: a number keeps its fraction, even if that is zero, because Go's decoder refuses `2.0`
    /// for an integer.
    TypedJson,
    /// YAML, a superset of JSON.
    Yaml,
}

/// Whether duplicate keys in a body are reported; the last one wins in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateKeyReport {
    /// They are not looked for.
    Omit,
    /// Their paths are collected.
    Collect,
}

impl DuplicateKeyReport {
    /// Returns `Collect` if the caller wants to know about duplicate keys.
    pub fn collect_if(is_wanted: bool) -> Self {
        if is_wanted { Self::Collect } else { Self::Omit }
    }
}

/// A parsed body.
#[derive(Debug)]
pub struct DecodedBody {
    /// The parsed value; the last of two equal keys wins.
    pub value: Value,
    /// Paths of duplicate keys, in order, if the caller asked for them.
    pub duplicates: BoundedTexts,
    /// The message that Go's YAML parser would give about the duplicate keys, if it is the parser that would read the
    /// body.
    yaml_error_text: Option<String>,
}

impl DecodedBody {
    /// Wraps a value in which no key can be duplicated.
    pub fn new(value: Value) -> Self {
        Self { value, duplicates: BoundedTexts::new(), yaml_error_text: None }
    }

    /// Returns the errors of strict decoding: duplicate keys, and the `unknown` fields.
    pub fn strict_errors(&self, unknown: Vec<String>) -> Vec<String> {
        if let Some(error_text) = &self.yaml_error_text {
            return std::iter::once(error_text.clone()).chain(unknown).collect();
        }
        let twice = self.duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        unknown.into_iter().chain(twice).collect()
    }
}

/// Splits one error into warnings: the YAML parser reports all lines in one message.
pub fn warnings_of_error(error_text: String) -> Vec<String> {
    match error_text.split_once(yaml_duplicates::INTRO) {
        Some((_, lines)) => {
            lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(Into::into).collect()
        }
        None => vec![error_text],
    }
}

/// Parses a body of any shape.
///
/// # Errors
/// Fails with a 400 that says where the text becomes invalid.
pub fn body(
    bytes: &[u8],
    media: TextFormat,
    duplicate_keys: DuplicateKeyReport,
) -> Result<DecodedBody, Status> {
    parse(bytes, media, duplicate_keys).map_err(|error| match &*error {
        build::TOO_LARGE => too_large(),
        _ => Status::bad_request(error),
    })
}

/// Parses a body that must be an object of `kind`; `null` counts as an empty object.
///
/// # Errors
/// Fails with the 400 that Kubernetes returns, with the kind and the start of the body.
pub fn object(
    bytes: &[u8],
    media: TextFormat,
    duplicate_keys: DuplicateKeyReport,
    kind: &str,
) -> Result<DecodedBody, Status> {
    let refuse = |why: String| unrecognized(bytes, kind, &why);
    let parsed = parse(bytes, media, duplicate_keys).map_err(|error| match media {
        _ if error == build::TOO_LARGE => too_large(),
        TextFormat::Json | TextFormat::TypedJson => {
            refuse(format!("couldn't get version/kind; json parse error: {error}"))
        }
        TextFormat::Yaml => refuse(error),
    });
    let mut decoded = parsed?;
    if decoded.value.is_null() {
        decoded.value = Value::Object(Map::new());
    }
    if let Value::Object(fields) = &decoded.value {
        let mistyped = ["apiVersion", "kind"].into_iter().find_map(|name| {
            let value = fields.get(name).filter(|value| !value.is_string() && !value.is_null())?;
            Some((name, type_name(value)))
        });
        return match mistyped {
            None => Ok(decoded),
            Some((name, found)) => Err(refuse(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go struct field .{name} of type string"
            ))),
        };
    }
    let found = type_name(&decoded.value);
    Err(refuse(format!(
        r#"couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }}"#
    )))
}

/// Returns the 400 response for a body that does not state its kind, quoting the start of the body.
pub fn unrecognized(bytes: &[u8], kind: &str, why: &str) -> Status {
    let excerpt = excerpt(bytes);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({excerpt})"
    ))
}

/// Returns the error message of Go's decoder about text that is not JSON, or `None` if it is JSON.
pub fn json_error_text(bytes: &[u8]) -> Option<String> {
    parse(bytes, TextFormat::Json, DuplicateKeyReport::Omit).err()
}

/// Returns the JSON type of a value, as Go's decoder names it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn parse(bytes: &[u8], media: TextFormat, duplicate_keys: DuplicateKeyReport) -> Result<DecodedBody, String> {
    let text: Cow<'_, str> = match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    let duplicates =
        (duplicate_keys == DuplicateKeyReport::Collect).then(|| RefCell::new(BoundedTexts::new()));
    let value = match media {
        TextFormat::Json => json::parse(&text, &duplicates, WholeFloats::Shorten)?,
        TextFormat::TypedJson => json::parse(&text, &duplicates, WholeFloats::Keep)?,
        // JSON is valid YAML, and the JSON parser is faster and has fewer surprises.
        TextFormat::Yaml if text.trim_start().starts_with('{') => {
            json::parse(&text, &duplicates, WholeFloats::Shorten).or_else(|error| match &*error {
                build::TOO_LARGE => Err(error),
                _ => yaml::parse(&text, &duplicates),
            })?
        }
        TextFormat::Yaml => yaml::parse(&text, &duplicates)?,
    };
    let duplicates = duplicates.map(RefCell::into_inner).unwrap_or_default();
    if media != TextFormat::Yaml || duplicate_keys == DuplicateKeyReport::Omit {
        return Ok(DecodedBody { value, duplicates, yaml_error_text: None });
    }
    let yaml_error_text = if has_whole_number_for_key(&value) {
        yaml::number_key_error_text(&text)
    } else if !duplicates.is_empty() {
        yaml::error_text(&text)
    } else {
        None
    };
    // Go's parser compares keys before they become strings: `1` and `"1"` differ.
    let duplicates = if yaml_error_text.is_some() { duplicates } else { BoundedTexts::new() };
    Ok(DecodedBody { value, duplicates, yaml_error_text })
}

/// Returns whether any map in the value has a key that is a whole number.
fn has_whole_number_for_key(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(has_whole_number_for_key),
        Value::Object(map) => {
            let is_whole = |name: &str| name.parse::<i128>().is_ok();
            map.iter().any(|(name, value)| is_whole(name) || has_whole_number_for_key(value))
        }
        _ => false,
    }
}

/// Returns the rejection of a body that is small as text but too large in memory.
pub(crate) fn too_large() -> Status {
    let mebibytes = MEMORY_MAX / (1024 * 1024);
    Status::too_large(format!(
        "Request entity too large: read into memory the body takes more than {mebibytes} MiB; send fewer values"
    ))
}

/// Returns the start of a body: as text if it looks like JSON, otherwise in hexadecimal.
fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(EXCERPT_BYTES_MAX)];
    let more = if bytes.len() > shown.len() { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let mut digits = shown.iter().fold(String::new(), |mut digits, byte| {
                let _ = write!(digits, "{byte:02x}");
                digits
            });
            digits.push_str(more);
            digits
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(media: TextFormat, text: &str, value: &Value, duplicates: &[&str]) {
        let decoded = body(text.as_bytes(), media, DuplicateKeyReport::Collect).expect("a good body");
        assert_eq!(&decoded.value, value);
        assert_eq!(*decoded.duplicates, *duplicates);
    }

    #[test]
    fn json_bodies_keep_the_last_of_equal_keys_and_say_so() {
        check(TextFormat::Json, r#"{"a":{"b":[{"c":1,"c":2}]},"a":3}"#, &json!({"a": 3}), &["a.b[0].c", "a"]);
        check(TextFormat::Json, r#"{"data":{"k":"1","k":"2"}}"#, &json!({"data": {"k": "2"}}), &["data.k"]);
    }

    /// Otherwise patching a label could change a number elsewhere in the object by one bit.
    #[test]
    fn a_number_that_was_written_is_read_exactly() {
        for number in [8.556_721_091_350_132e-192, 0.1 + 0.2, 1.234_567_890_123_456_7e300, f64::MIN_POSITIVE]
        {
            check(TextFormat::Json, &json!([number]).to_string(), &json!([number]), &[]);
        }
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_as_go_does() {
        let rows = [
            (r#"["\ud800"]"#, "\u{fffd}"),
            (r#"["a\udc00b"]"#, "a\u{fffd}b"),
            (r#"["\ud83d\ude00"]"#, "\u{1f600}"),
            (r#"["\ud800\ud83d\ude00\\ud800\n"]"#, "\u{fffd}\u{1f600}\\ud800\n"),
            (r#"["\ud800\u0041é\ud800"]"#, "\u{fffd}Aé\u{fffd}"),
        ];
        for (text, expected) in rows {
            check(TextFormat::Json, text, &json!([expected]), &[]);
        }
        check(TextFormat::Json, r#"{"a":1,"a":"\udfff"}"#, &json!({"a": "\u{fffd}"}), &["a"]);
        for broken in [r#"["\ud8"#, r#"["\ud800"#, r#"["\"#, r"\ud800é"] {
            assert_eq!(
                body(broken.as_bytes(), TextFormat::Json, DuplicateKeyReport::Omit)
                    .expect_err("cut off")
                    .code,
                400
            );
        }
    }

    /// Go's decoder refuses such a number for an integer, so the type must see it.
    #[test]
    fn numbers_for_a_type_keep_a_fraction_of_zero() {
        check(TextFormat::TypedJson, "[2.0, 2e1, 3, -1.5]", &json!([2.0, 20.0, 3, -1.5]), &[]);
    }

    /// Finding each key costs a pass over the text.
    #[test]
    fn a_long_text_with_many_duplicate_keys_is_not_searched_to_the_end() {
        let text = "1: x\n".repeat(60_000);
        let decoded =
            body(text.as_bytes(), TextFormat::Yaml, DuplicateKeyReport::Collect).expect("a good body");
        let errors = decoded.strict_errors(Vec::new());
        assert_eq!(errors.len(), 1);
        assert!((2..100).contains(&errors[0].lines().count()), "{} lines", errors[0].lines().count());
    }

    #[test]
    fn numbers_are_whole_if_they_can_be() {
        check(
            TextFormat::Json,
            "[1.0, 1.5, 9223372036854775807, 9223372036854775808, -0.0, 1e3]",
            &json!([1, 1.5, i64::MAX, 9_223_372_036_854_775_808.0, 0, 1000]),
            &[],
        );
    }

    #[test]
    fn yaml_bodies_are_yaml_1_1() {
        check(
            TextFormat::Yaml,
            "i: 5\nf: 1.5\ns: \"5\"\nb: yes\nn: null\nl: [1, two]\n",
            &json!({"b": true, "f": 1.5, "false": null, "i": 5, "l": [1, "two"], "s": "5"}),
            &[],
        );
        check(TextFormat::Yaml, "a: &x {k: 1}\nb: *x\n", &json!({"a": {"k": 1}, "b": {"k": 1}}), &[]);
        check(TextFormat::Yaml, "---\na: 1\n---\na: 2\n", &json!({"a": 1}), &[]);
        check(
            TextFormat::Yaml,
            "a: 1\na: 2\nb: {c: 1, c: 2}",
            &json!({"a": 2, "b": {"c": 2}}),
            &["a", "b.c"],
        );
        check(TextFormat::Yaml, r#"{"a": "n"}"#, &json!({"a": "n"}), &[]);
        check(
            TextFormat::Yaml,
            "v: 0644\nt: 2020-01-01T00:00:00Z\nx: 1e3\n",
            &json!({"v": 420, "t": "2020-01-01T00:00:00Z", "x": 1000}),
            &[],
        );
    }

    #[test]
    fn yaml_bodies_name_the_lines_of_keys_that_come_twice() {
        let rows = [
            ("\na: 1\nb: 2\nb:\n  3\n", "\n  line 5: key \"b\" already set in map"),
            (
                "l:\n  x: y\nl:\n  x: z\n  x: w\n",
                "\n  line 5: key \"x\" already set in map\n  line 4: key \"l\" already set in map",
            ),
            ("m: [{k: a, k: b}]\n", "\n  line 1: key \"k\" already set in map"),
            ("{\"d\": {\"k\": 1,\n\"k\": 2}}", "\n  line 2: key \"k\" already set in map"),
            ("yes: 1\ntrue: 2\n", "\n  line 2: key true already set in map"),
            ("1: a\n1: b\n", "\n  line 2: key 1 already set in map"),
            ("a:\n- 7: a\n  x: b\n  0x7: c\n", "\n  line 4: key 7 already set in map"),
            ("1.5: a\n1.5: b\n", "\n  line 2: key 1.5 already set in map"),
            (
                "1: x\n1: w\n2: x\n2: w\n2: v\na: x\n\"a\": w\n'3': x\n\"3\": w\n",
                "\n  line 2: key 1 already set in map\n  line 4: key 2 already set in map\n  line 5: key 2 already \
                 set in map\n  line 7: key \"a\" already set in map\n  line 9: key \"3\" already set in map",
            ),
            (
                "m: {1: x, 1: w}\nn: [{2: {3: x, 3: w}, é: 4, 2: v}]\n",
                "\n  line 1: key 1 already set in map\n  line 2: key 3 already set in map\n  line 2: key 2 already \
                 set in map",
            ),
            ("\"a\\tb'\\\"é\": 1\n\"a\\tb'\\\"é\": 2", "\n  line 2: key \"a\\tb'\\\"é\" already set in map"),
        ];
        for (text, lines) in rows {
            let decoded =
                body(text.as_bytes(), TextFormat::Yaml, DuplicateKeyReport::Collect).expect("a good body");
            let error_text = format!("yaml: unmarshal errors:{lines}");
            assert_eq!(decoded.strict_errors(Vec::new()), std::slice::from_ref(&error_text), "{text}");
            let warnings = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
            assert_eq!(warnings_of_error(error_text), warnings);
        }
        for text in ["1: a\n\"1\": b\n", "1: a\n2: b\n", "1: a\n1.0: b\n"] {
            let decoded =
                body(text.as_bytes(), TextFormat::Yaml, DuplicateKeyReport::Collect).expect("a good body");
            assert_eq!(decoded.strict_errors(Vec::new()), Vec::<String>::new(), "{text}");
        }
        assert_eq!(warnings_of_error("unknown field \"a\"".into()), ["unknown field \"a\""]);
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let part = format!("*a{}", level - 1);
            let parts = vec![part; 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{parts}]").expect("text can be written to");
        }
        assert_eq!(
            body(text.as_bytes(), TextFormat::Yaml, DuplicateKeyReport::Omit).expect_err("a bomb").code,
            400
        );
    }

    #[track_caller]
    fn refused(media: TextFormat, text: &str, message: &str) {
        let status =
            object(text.as_bytes(), media, DuplicateKeyReport::Omit, "ConfigMap").expect_err("a bad body");
        assert_eq!(status.code, 400);
        let start = "the object provided is unrecognized (must be of type ConfigMap): ";
        assert_eq!(status.message, format!("{start}{message}"));
    }

    #[test]
    fn bad_bodies_are_refused_as_the_real_server_does() {
        let go = "couldn't get version/kind; json parse error: ";
        refused(TextFormat::Json, "{", &format!("{go}unexpected end of JSON input ({{)"));
        refused(TextFormat::Json, "", &format!("{go}unexpected end of JSON input (<empty>)"));
        for (text, words) in [
            ("nonsense", "'o' in literal null (expecting 'u')"),
            ("[tree]", "'e' in literal true (expecting 'u')"),
            ("{'a':1}", r"'\'' looking for beginning of object key string"),
            ("{\"a\" 1}", "'1' after object key"),
            ("{\"a\":1 \"b\"}", "'\"' after object key:value pair"),
            ("{\"a\":1,}", "'}' looking for beginning of object key string"),
            ("[1 2]", "'2' after array element"),
            ("[1,]", "']' looking for beginning of value"),
            ("[\"a\nb\"]", r"'\n' in string literal"),
            ("[\"\\q\"]", "'q' in string escape code"),
            ("[-x]", "'x' in numeric literal"),
        ] {
            let said = json_error_text(text.as_bytes());
            assert_eq!(said, Some(format!("invalid character {words}")), "{text}");
        }
        let long = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} trailing"#;
        let start = r#"{"apiVersion":"v1","kind":"Con ..."#;
        refused(
            TextFormat::Json,
            long,
            &format!("{go}invalid character 't' after top-level value ({start})"),
        );
        let structure = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        refused(
            TextFormat::Json,
            "[]",
            &format!("{go}json: cannot unmarshal array into Go value of type {structure} (5b5d)"),
        );
        assert_eq!(
            object(b"null", TextFormat::Json, DuplicateKeyReport::Omit, "X").expect("an empty object").value,
            json!({})
        );
        let deep = "[".repeat(100_000);
        assert_eq!(
            body(deep.as_bytes(), TextFormat::Json, DuplicateKeyReport::Omit).expect_err("too deep").code,
            400
        );
        assert_eq!(
            body(b"{not: [yaml", TextFormat::Yaml, DuplicateKeyReport::Omit).expect_err("broken").code,
            400
        );
    }

    #[test]
    fn no_bytes_are_too_odd() {
        const LETTERS: &[u8] = b"{}[]\":,0189.eE+-ab\\un\n \t&*!<|>#%@'?~\xff\xc3\x28\0";
        let entropy = homeostat_core::Entropy::seeded(3);
        for _ in 0..2000 {
            let length = entropy.below(60);
            let letter = || LETTERS[usize::try_from(entropy.below(LETTERS.len() as u64)).expect("small")];
            let bytes: Vec<u8> = (0..length).map(|_| letter()).collect();
            for media in [TextFormat::Json, TextFormat::Yaml] {
                if let Err(status) = object(&bytes, media, DuplicateKeyReport::Collect, "ConfigMap") {
                    assert_eq!(status.code, 400);
                }
            }
        }
    }
}
