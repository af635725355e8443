//! The bytes of a request become a [`Value`].
//!
//! **Invariant:** a hostile body costs at most time and memory in proportion to its size; it gets a 400.
//! Protobuf is not read here: it needs the kind's table.

mod build;
mod json;
mod yaml;
mod yaml_duplicates;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::field::Texts;
use crate::object::memory::MEMORY_MAX;
use crate::status::Status;

/// How much of a bad body an answer repeats.
const EXCERPT_BYTES_MAX: usize = 30;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// YAML, of which JSON is a part.
    Yaml,
}

/// A parsed body.
#[derive(Debug)]
pub struct Decoded {
    /// What it says; of two equal keys the last one counts.
    pub value: Value,
    /// Paths of keys that came twice, in order, if they were asked for.
    pub duplicates: Texts,
    /// What Go's YAML parser says of them, if that is who reads the body.
    yaml_complaint: Option<String>,
}

impl Decoded {
    /// A value in which no key can come twice.
    pub fn new(value: Value) -> Self {
        Self { value, duplicates: Texts::new(), yaml_complaint: None }
    }

    /// What a strict reader complains about: keys that came twice, and the fields that are `unknown`.
    pub fn complaints(&self, unknown: Vec<String>) -> Vec<String> {
        if let Some(complaint) = &self.yaml_complaint {
            return std::iter::once(complaint.clone()).chain(unknown).collect();
        }
        let twice = self.duplicates.iter().map(|path| format!("duplicate field {path:?}"));
        unknown.into_iter().chain(twice).collect()
    }
}

/// The warnings that one complaint makes: a YAML parser names all its lines at once.
pub fn warnings_of_complaint(complaint: String) -> Vec<String> {
    match complaint.split_once(yaml_duplicates::INTRO) {
        Some((_, lines)) => {
            lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(Into::into).collect()
        }
        None => vec![complaint],
    }
}

/// Parses a body of any shape.
///
/// # Errors
/// A 400 that says where the text stops making sense.
pub fn body(bytes: &[u8], media: Media, want_duplicates: bool) -> Result<Decoded, Status> {
    parse(bytes, media, want_duplicates).map_err(|error| match &*error {
        build::TOO_LARGE => too_large(),
        _ => Status::bad_request(error),
    })
}

/// Parses a body that must be an object of `kind`; `null` is an empty one.
///
/// # Errors
/// The 400 Kubernetes gives, with the kind and the start of the body.
pub fn object(bytes: &[u8], media: Media, want_duplicates: bool, kind: &str) -> Result<Decoded, Status> {
    let refuse = |why: String| unrecognized(bytes, kind, &why);
    let parsed = parse(bytes, media, want_duplicates).map_err(|error| match media {
        _ if error == build::TOO_LARGE => too_large(),
        Media::Json => refuse(format!("couldn't get version/kind; json parse error: {error}")),
        Media::Yaml => refuse(error),
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

/// The 400 for a body that does not say what it is, with its start.
pub fn unrecognized(bytes: &[u8], kind: &str, why: &str) -> Status {
    let excerpt = excerpt(bytes);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({excerpt})"
    ))
}

/// What Go's decoder says about text that is not JSON; `None`: it is.
pub fn json_complaint(bytes: &[u8]) -> Option<String> {
    parse(bytes, Media::Json, false).err()
}

/// The JSON name of a value's type, as Go's decoder says it.
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

fn parse(bytes: &[u8], media: Media, want_duplicates: bool) -> Result<Decoded, String> {
    let text: Cow<'_, str> = match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    let duplicates = want_duplicates.then(|| RefCell::new(Texts::new()));
    let value = match media {
        Media::Json => json::parse(&text, &duplicates)?,
        // JSON is YAML, and its own parser is faster and knows no surprises.
        Media::Yaml if text.trim_start().starts_with('{') => {
            json::parse(&text, &duplicates).or_else(|error| match &*error {
                build::TOO_LARGE => Err(error),
                _ => yaml::parse(&text, &duplicates),
            })?
        }
        Media::Yaml => yaml::parse(&text, &duplicates)?,
    };
    let duplicates = duplicates.map(RefCell::into_inner).unwrap_or_default();
    let is_yaml = media == Media::Yaml && !duplicates.is_empty();
    let yaml_complaint = is_yaml.then(|| yaml::complaint(&text)).flatten();
    Ok(Decoded { value, duplicates, yaml_complaint })
}

/// The start of a body: as text if it looks like JSON, else in hexadecimal digits.
/// The refusal of a body that is small as text and too large once it is read.
pub(crate) fn too_large() -> Status {
    let mebibytes = MEMORY_MAX / (1024 * 1024);
    Status::too_large(format!(
        "Request entity too large: read into memory the body takes more than {mebibytes} MiB; send fewer values"
    ))
}

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
    fn check(media: Media, text: &str, value: &Value, duplicates: &[&str]) {
        let decoded = body(text.as_bytes(), media, true).expect("a good body");
        assert_eq!(&decoded.value, value);
        assert_eq!(*decoded.duplicates, *duplicates);
    }

    #[test]
    fn json_bodies_keep_the_last_of_equal_keys_and_say_so() {
        check(Media::Json, r#"{"a":{"b":[{"c":1,"c":2}]},"a":3}"#, &json!({"a": 3}), &["a.b[0].c", "a"]);
        check(Media::Json, r#"{"data":{"k":"1","k":"2"}}"#, &json!({"data": {"k": "2"}}), &["data.k"]);
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
            check(Media::Json, text, &json!([expected]), &[]);
        }
        check(Media::Json, r#"{"a":1,"a":"\udfff"}"#, &json!({"a": "\u{fffd}"}), &["a"]);
        for broken in [r#"["\ud8"#, r#"["\ud800"#, r#"["\"#, r"\ud800é"] {
            assert_eq!(body(broken.as_bytes(), Media::Json, false).expect_err("cut off").code, 400);
        }
    }

    #[test]
    fn numbers_are_whole_if_they_can_be() {
        check(
            Media::Json,
            "[1.0, 1.5, 9223372036854775807, 9223372036854775808, -0.0, 1e3]",
            &json!([1, 1.5, i64::MAX, 9_223_372_036_854_775_808.0, 0, 1000]),
            &[],
        );
    }

    #[test]
    fn yaml_bodies_are_yaml_1_1() {
        check(
            Media::Yaml,
            "i: 5\nf: 1.5\ns: \"5\"\nb: yes\nn: null\nl: [1, two]\n",
            &json!({"b": true, "f": 1.5, "false": null, "i": 5, "l": [1, "two"], "s": "5"}),
            &[],
        );
        check(Media::Yaml, "a: &x {k: 1}\nb: *x\n", &json!({"a": {"k": 1}, "b": {"k": 1}}), &[]);
        check(Media::Yaml, "---\na: 1\n---\na: 2\n", &json!({"a": 1}), &[]);
        check(Media::Yaml, "a: 1\na: 2\nb: {c: 1, c: 2}", &json!({"a": 2, "b": {"c": 2}}), &["a", "b.c"]);
        check(Media::Yaml, r#"{"a": "n"}"#, &json!({"a": "n"}), &[]);
        check(
            Media::Yaml,
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
            ("\"a\\tb'\\\"é\": 1\n\"a\\tb'\\\"é\": 2", "\n  line 2: key \"a\\tb'\\\"é\" already set in map"),
        ];
        for (text, lines) in rows {
            let decoded = body(text.as_bytes(), Media::Yaml, true).expect("a good body");
            let complaint = format!("yaml: unmarshal errors:{lines}");
            assert_eq!(decoded.complaints(Vec::new()), std::slice::from_ref(&complaint), "{text}");
            let warnings = lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
            assert_eq!(warnings_of_complaint(complaint), warnings);
        }
        assert_eq!(warnings_of_complaint("unknown field \"a\"".into()), ["unknown field \"a\""]);
    }

    #[test]
    fn alias_bombs_are_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..10 {
            let part = format!("*a{}", level - 1);
            let parts = vec![part; 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{parts}]").expect("text can be written to");
        }
        assert_eq!(body(text.as_bytes(), Media::Yaml, false).expect_err("a bomb").code, 400);
    }

    #[track_caller]
    fn refused(media: Media, text: &str, message: &str) {
        let status = object(text.as_bytes(), media, false, "ConfigMap").expect_err("a bad body");
        assert_eq!(status.code, 400);
        let start = "the object provided is unrecognized (must be of type ConfigMap): ";
        assert_eq!(status.message, format!("{start}{message}"));
    }

    #[test]
    fn bad_bodies_are_refused_as_the_real_server_does() {
        let go = "couldn't get version/kind; json parse error: ";
        refused(Media::Json, "{", &format!("{go}unexpected end of JSON input ({{)"));
        refused(Media::Json, "", &format!("{go}unexpected end of JSON input (<empty>)"));
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
            let said = json_complaint(text.as_bytes());
            assert_eq!(said, Some(format!("invalid character {words}")), "{text}");
        }
        let long = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}} trailing"#;
        let start = r#"{"apiVersion":"v1","kind":"Con ..."#;
        refused(Media::Json, long, &format!("{go}invalid character 't' after top-level value ({start})"));
        let structure = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        refused(
            Media::Json,
            "[]",
            &format!("{go}json: cannot unmarshal array into Go value of type {structure} (5b5d)"),
        );
        assert_eq!(object(b"null", Media::Json, false, "X").expect("an empty object").value, json!({}));
        let deep = "[".repeat(100_000);
        assert_eq!(body(deep.as_bytes(), Media::Json, false).expect_err("too deep").code, 400);
        assert_eq!(body(b"{not: [yaml", Media::Yaml, false).expect_err("broken").code, 400);
    }

    #[test]
    fn no_bytes_are_too_odd() {
        const LETTERS: &[u8] = b"{}[]\":,0189.eE+-ab\\un\n \t&*!<|>#%@'?~\xff\xc3\x28\0";
        let entropy = homeostat_core::Entropy::seeded(3);
        for _ in 0..2000 {
            let length = entropy.below(60);
            let letter = || LETTERS[usize::try_from(entropy.below(LETTERS.len() as u64)).expect("small")];
            let bytes: Vec<u8> = (0..length).map(|_| letter()).collect();
            for media in [Media::Json, Media::Yaml] {
                if let Err(status) = object(&bytes, media, true, "ConfigMap") {
                    assert_eq!(status.code, 400);
                }
            }
        }
    }
}
