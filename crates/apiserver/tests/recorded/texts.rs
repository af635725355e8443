//! Normalises the texts in one scenario's responses so that they are the same on every run: names, uids, times, tokens.
//!
//! A value that must be the same throughout a scenario becomes a numbered token (`<uid:1>`); a value that must only
//! be a clock reading becomes `<time>`. Times that the scenario itself sent are far from now and stay as they are.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use homeostat_core::Clock;
use regex::{Captures, Regex};
use serde_json::{Value, json};

/// Texts longer than this, without any structure, are compared by their length.
const LONG_CHARACTERS: usize = 2000;
/// A time further from now than a day and a half was not read from a clock.
const CLOCK_SECONDS_MAX: f64 = 129_600.0;
/// A time this far ahead is a deadline, not a clock reading.
const AHEAD_SECONDS: f64 = 8.0;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).unwrap());
    };
}

pattern!(UUID, r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b");
pattern!(STAMP, r"\b(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)");
pattern!(LONG_DATE, r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}");
pattern!(JWT, r"\beyJ[\w-]+\.(eyJ[\w-]+)\.[\w-]+");
pattern!(WORD, r"[\w.\-/]+");
pattern!(AGE_WORD, r"^(\d{1,2}s|\d{1,2}m(\d{1,2}s)?)$");
pattern!(YAML_VERSION, r#"(resourceVersion"?: "?)\d+("?)"#);
pattern!(DESCRIBED_VERSION, r"(Resource Version: +)\d+");
pattern!(DELETED_FROM, r#"" (force )?deleted from \S+ namespace"#);
pattern!(TEMPORARY, r"/\S*/(kubectl-edit-|LIVE-|MERGED-)\d+");
pattern!(SPACES, r"[ \t]{2,}");

/// The kinds of values that tokens stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TokenFamily {
    Uid,
    GeneratedName,
    Address,
    Port,
}

impl TokenFamily {
    fn word(self) -> &'static str {
        match self {
            Self::Uid => "uid",
            Self::GeneratedName => "gen",
            Self::Address => "ip",
            Self::Port => "port",
        }
    }
}

pub(crate) struct TextNormaliser {
    /// Names of this run and the variables that replace them, longer ones first.
    names: Vec<(String, String)>,
    tokens: BTreeMap<TokenFamily, BTreeMap<String, usize>>,
    clock: Clock,
}

impl TextNormaliser {
    pub(crate) fn new(names: Vec<(String, String)>) -> Self {
        Self { names, tokens: BTreeMap::new(), clock: Clock::system() }
    }

    /// Returns the token for a value, which is a new one for a new value.
    pub(crate) fn token(&mut self, family: TokenFamily, value: &str) -> String {
        let known = self.tokens.entry(family).or_default();
        let next = known.len() + 1;
        format!("<{}:{}>", family.word(), known.entry(value.to_owned()).or_insert(next))
    }

    pub(crate) fn is_known(&self, family: TokenFamily, value: &str) -> bool {
        self.tokens.get(&family).is_some_and(|known| known.contains_key(value))
    }

    /// Normalises a text.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let characters = text.chars().count();
        if characters > LONG_CHARACTERS && !text.contains(['\n', '<', '{']) {
            return format!("<long:{characters}>");
        }
        let mut text = JWT.replace_all(text, describe_jwt).into_owned();
        for (name, variable) in &self.names {
            text = text.replace(name, variable);
        }
        let generated = self.tokens.get(&TokenFamily::GeneratedName);
        let mut generated: Vec<String> =
            generated.into_iter().flat_map(|known| known.keys().cloned()).collect();
        generated.sort_by_key(|name| std::cmp::Reverse(name.len()));
        for name in generated {
            if text.contains(&name) {
                text = text.replace(&name, &self.token(TokenFamily::GeneratedName, &name));
            }
        }
        let text = UUID.replace_all(&text, |found: &Captures<'_>| self.token(TokenFamily::Uid, &found[0]));
        let text = LONG_DATE.replace_all(&text, "<time>");
        STAMP.replace_all(&text, |found: &Captures<'_>| self.stamp(found)).into_owned()
    }

    fn stamp(&self, found: &Captures<'_>) -> String {
        let Some(ahead) = seconds(found).map(|seconds| seconds - self.now()) else {
            return found[0].to_owned();
        };
        if ahead.abs() > CLOCK_SECONDS_MAX {
            return found[0].to_owned();
        }
        let zone = if &found[8] == "Z" { "" } else { &found[8] };
        let label = if found.get(7).is_some() { "microtime" } else { "time" };
        if ahead > AHEAD_SECONDS {
            return format!("<{label}{zone}+{}s>", (ahead / 10.0).round_ties_even() * 10.0);
        }
        format!("<{label}{zone}>")
    }

    fn now(&self) -> f64 {
        self.clock.now().as_duration().as_secs_f64()
    }

    /// Normalises the output of a command: versions, ages and the width of columns.
    pub(crate) fn output(&mut self, text: &str) -> String {
        let text = self.text(text);
        let text = YAML_VERSION.replace_all(&text, "${1}<rv>${2}");
        let text = DESCRIBED_VERSION.replace_all(&text, "${1}<rv>");
        // Newer versions of kubectl name the namespace.
        let text = DELETED_FROM.replace_all(&text, "\" ${1}deleted");
        let text = TEMPORARY.replace_all(&text, "<tmp>/${1}");
        let lines: Vec<String> = text.split('\n').map(line_of_output).collect();
        lines.join("\n").trim_end_matches('\n').to_owned()
    }

    /// Normalises a response that is not JSON.
    pub(crate) fn answer(&mut self, text: &str) -> String {
        YAML_VERSION.replace_all(&self.text(text), "${1}<rv>${2}").into_owned()
    }
}

fn line_of_output(line: &str) -> String {
    let line = WORD.replace_all(line, |word: &Captures<'_>| {
        if AGE_WORD.is_match(&word[0]) { "<age>".to_owned() } else { word[0].to_owned() }
    });
    let (indent, rest) = line.split_at(line.len() - line.trim_start_matches(' ').len());
    format!("{indent}{}", SPACES.replace_all(rest, "  ")).trim_end().to_owned()
}

/// Reads the seconds of a time stamp, whatever its zone.
fn seconds(found: &Captures<'_>) -> Option<f64> {
    let part = |at: usize| found[at].parse::<i8>().ok();
    let year = found[1].parse().ok()?;
    let civil = jiff::civil::DateTime::new(year, part(2)?, part(3)?, part(4)?, part(5)?, part(6)?, 0).ok()?;
    let time = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
    Some(time.as_duration().as_secs_f64())
}

/// Describes the claims of a token instead of the token.
fn describe_jwt(found: &Captures<'_>) -> String {
    let claims = URL_SAFE_NO_PAD.decode(&found[1]).ok();
    let Some(claims) = claims.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) else {
        return found[0].to_owned();
    };
    let keys = |value: &Value| -> Vec<String> {
        let mut keys: Vec<String> =
            value.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect();
        keys.sort();
        keys
    };
    let issuer =
        |audience: &Value| if *audience == claims["iss"] { json!("<issuer>") } else { audience.clone() };
    let audiences: Vec<Value> = claims["aud"].as_array().into_iter().flatten().map(issuer).collect();
    let number = |key: &str| claims[key].as_i64().unwrap_or_default();
    let kept = [
        ("aud", json!(audiences)),
        ("bound", json!(keys(&claims["kubernetes.io"]))),
        ("claims", json!(keys(&claims))),
        ("seconds", json!(number("exp") - number("iat"))),
        ("sub", claims["sub"].clone()),
    ];
    let kept: Vec<String> = kept.iter().map(|(key, value)| format!("\"{key}\": {}", spaced(value))).collect();
    format!("<jwt {{{}}}>", kept.join(", "))
}

/// Writes a list with a space after each comma, as in the recording.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(spaced).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let names =
            vec![("oracle-abc".to_owned(), "${ns}".to_owned()), ("abc".to_owned(), "${id}".to_owned())];
        assert_eq!(TextNormaliser::new(names).text(text), expected);
    }

    #[test]
    fn only_what_changes_from_run_to_run_is_replaced() {
        check("oracle-abc and abc", "${ns} and ${id}");
        check("at 2001-02-03T04:05:06Z", "at 2001-02-03T04:05:06Z");
        check("2001-13-03T04:05:06Z", "2001-13-03T04:05:06Z");
        let (first, second) =
            ("0b4bbb00-6b4f-4d0e-8f31-3a6f4a4b4c4d", "1b4bbb00-6b4f-4d0e-8f31-3a6f4a4b4c4d");
        check(&format!("{first} {second} {first}"), "<uid:1> <uid:2> <uid:1>");
        check(&"x".repeat(2001), "<long:2001>");
        let now = Clock::system().now();
        check(&format!("{now:.0}"), "<time>");
        check(&format!("{now:.6}"), "<microtime>");
        let later = now.checked_add(jiff::SignedDuration::from_secs(3601)).unwrap();
        check(&format!("{later:.0}"), "<time+3600s>");
    }

    #[test]
    fn output_of_commands_loses_ages_and_widths() {
        let text = "NAME    AGE\na-5s    5s\nb  1m30s  \n  x     10m.\n\n";
        assert_eq!(
            TextNormaliser::new(Vec::new()).output(text),
            "NAME  AGE\na-5s  <age>\nb  <age>\n  x  10m."
        );
    }
}
