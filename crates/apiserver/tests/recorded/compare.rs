//! Compares normalised responses with the recording, keeping relations across the steps of a scenario.
//!
//! A resourceVersion is compared by its order relative to all earlier ones of the same resource; a uid or a generated
//! name by identity. A wrong response is therefore reported where it occurs and does not affect the following steps.
//! Texts of messages are soft: a difference in them alone does not fail a scenario, because no client may depend on
//! them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::normalise::AGE;
use super::versions::{ServedVersion, show};

/// Stands for a missing value.
pub(crate) const ABSENT: &str = "<absent>";
/// The end of a text that was cut.
pub(crate) const CUT: &str = "... (cut)";
/// How many characters of two cut messages must agree.
const CUT_COMPARED: usize = 300;
/// How much of a value a report shows.
const SHOWN_CHARACTERS_MAX: usize = 400;

static TOKEN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"<(uid|gen|ip|port):(\d+)>").unwrap());
static VERSION_TOKEN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^<rv:(\d+)>$").unwrap());
static NUMBER: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d{2,}").unwrap());
static SEPARATOR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"[\s,\[\]]+").unwrap());
static PLAIN_KEY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[\w$-]+$").unwrap());

/// One place where the response differs from the recording.
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) recorded: Value,
    pub(crate) given: Value,
    /// Whether only the text of a message differs.
    pub(crate) is_soft: bool,
    pub(crate) note: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = self.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
        let (recorded, given) = (crop(&show(&self.recorded)), crop(&show(&self.given)));
        write!(f, "at {}{note}\n      recorded  {recorded}\n      given     {given}", self.path)
    }
}

fn crop(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}... ({} characters)", &text[..end], text.chars().count()),
    }
}

/// A kind of token and its number.
type Token = (String, String);

#[derive(Default)]
pub(crate) struct Comparer {
    /// By resource and rank: the latest version, and the step that returned it.
    versions: BTreeMap<String, BTreeMap<u64, (u64, String)>>,
    /// Which token in the responses stands for which one in the recording, and the step that established it.
    served: BTreeMap<Token, (Token, String)>,
    recorded: BTreeMap<Token, (Token, String)>,
    step: String,
    differences: Vec<Difference>,
}

impl Comparer {
    pub(crate) fn compare(&mut self, recorded: &Value, given: &Value, step: &str) -> Vec<Difference> {
        step.clone_into(&mut self.step);
        self.values("", recorded, given, false);
        std::mem::take(&mut self.differences)
    }

    fn add(&mut self, path: &str, recorded: &Value, given: &Value, is_soft: bool, note: Option<String>) {
        let path = if path.is_empty() { "." } else { path }.to_owned();
        self.differences.push(Difference {
            path,
            recorded: recorded.clone(),
            given: given.clone(),
            is_soft,
            note,
        });
    }

    fn values(&mut self, path: &str, recorded: &Value, given: &Value, is_soft: bool) {
        match (recorded, given) {
            (Value::Object(_), Value::Object(_)) => self.objects(path, recorded, given, is_soft),
            (Value::Array(recorded), Value::Array(given)) => self.lists(path, recorded, given, is_soft),
            (Value::String(recorded), Value::String(given)) => self.texts(path, recorded, given, is_soft),
            _ if recorded == given => {}
            _ => self.add(path, recorded, given, is_soft, None),
        }
    }

    fn objects(&mut self, path: &str, recorded: &Value, given: &Value, is_soft: bool) {
        let (Some(wanted), Some(served)) = (recorded.as_object(), given.as_object()) else { return };
        let has_message = recorded["kind"] == "Status" || wanted.contains_key("reason");
        let unrecorded = served.keys().filter(|key| !wanted.contains_key(*key));
        for key in wanted.keys().chain(unrecorded) {
            let is_text = matches!(key.as_str(), "yamlText" | "stderrText" | "warningText");
            let is_soft = is_soft || is_text || (key == "message" && has_message);
            let absent = Value::from(ABSENT);
            let below = match (PLAIN_KEY.is_match(key), path.is_empty()) {
                (true, true) => key.clone(),
                (true, false) => format!("{path}.{key}"),
                (false, _) => format!("{path}[\"{key}\"]"),
            };
            match (wanted.get(key), served.get(key)) {
                (Some(recorded), Some(given)) => self.values(&below, recorded, given, is_soft),
                (recorded, given) => {
                    let (recorded, given) = (recorded.unwrap_or(&absent), given.unwrap_or(&absent));
                    self.add(&below, recorded, given, is_soft, None);
                }
            }
        }
    }

    fn lists(&mut self, path: &str, recorded: &[Value], given: &[Value], is_soft: bool) {
        for (index, (recorded, given)) in recorded.iter().zip(given).enumerate() {
            self.values(&format!("{path}[{index}]"), recorded, given, is_soft);
        }
        if recorded.len() != given.len() {
            let index = recorded.len().min(given.len());
            let absent = Value::from(ABSENT);
            let (one, other) = (recorded.get(index).unwrap_or(&absent), given.get(index).unwrap_or(&absent));
            let note = format!("{} elements recorded, {} given", recorded.len(), given.len());
            self.add(&format!("{path}[{index}]"), one, other, is_soft, Some(note));
        }
    }

    fn texts(&mut self, path: &str, recorded: &str, given: &str, is_soft: bool) {
        let version = ServedVersion::read(given);
        if let (Some(rank), Some(version)) = (VERSION_TOKEN.captures(recorded), &version) {
            return self.versions(path, rank[1].parse().unwrap(), version, is_soft);
        }
        let given = version.map_or_else(|| given.to_owned(), |version| version.text);
        // Later tables of a watch do not say which of their columns is an age.
        if recorded == "<age>" && AGE.is_match(&given) {
            return;
        }
        if is_soft && is_same_message(recorded, &given) {
            return;
        }
        if TOKEN.replace_all(recorded, "<#>") != TOKEN.replace_all(&given, "<#>") {
            return self.add(path, &recorded.into(), &given.into(), is_soft, None);
        }
        for (wanted, served) in tokens(recorded).into_iter().zip(tokens(&given)) {
            let note = self.is_other_token(&wanted, &served);
            if wanted.0 != served.0 || note.is_some() {
                self.add(path, &recorded.into(), &given.clone().into(), is_soft, note);
            }
            self.served.insert(wanted.clone(), (served.clone(), self.step.clone()));
            self.recorded.insert(served, (wanted, self.step.clone()));
        }
    }

    /// Explains why the served token cannot stand for the recorded one.
    fn is_other_token(&self, wanted: &Token, served: &Token) -> Option<String> {
        if let Some((known, step)) = self.served.get(wanted)
            && known != served
        {
            return Some(format!("must be the same {} as in step {step}", wanted.0));
        }
        let (taken, step) = self.recorded.get(served)?;
        (taken != wanted).then(|| format!("must differ from the {} served in step {step}", wanted.0))
    }

    fn versions(&mut self, path: &str, rank: u64, given: &ServedVersion, is_soft: bool) {
        let Some(number) = given.number() else {
            let recorded = "a decimal resourceVersion".into();
            return self.add(path, &recorded, &given.text.clone().into(), is_soft, None);
        };
        let seen = self.versions.entry(given.scope.clone()).or_default();
        let wrong = seen.iter().find(|(other, (known, _))| rank.cmp(other) != number.cmp(known));
        let note = wrong.map(|(other, (known, step))| {
            let should = ["older than", "equal to", "newer than"][place(rank.cmp(other))];
            let is = ["older", "equal", "newer"][place(number.cmp(known))];
            format!("must be {should} the one in step {step}, is {is}")
        });
        seen.insert(rank, (number, self.step.clone()));
        if note.is_some() {
            self.add(path, &format!("<rv:{rank}>").into(), &given.text.clone().into(), is_soft, note);
        }
    }
}

fn place(ordering: Ordering) -> usize {
    match ordering {
        Ordering::Less => 0,
        Ordering::Equal => 1,
        Ordering::Greater => 2,
    }
}

fn tokens(text: &str) -> Vec<Token> {
    TOKEN.captures_iter(text).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

/// Returns whether two messages differ at most in numbers that identify a revision, in the order of several errors, or
/// in parts that were cut off.
fn is_same_message(recorded: &str, given: &str) -> bool {
    let [recorded, given] = [recorded, given].map(|text| NUMBER.replace_all(text, "<n>").into_owned());
    let words = |text: &str| {
        let mut words: Vec<String> = SEPARATOR.split(text).map(ToOwned::to_owned).collect();
        words.sort();
        words
    };
    let start = |text: &str| text.chars().take(CUT_COMPARED).collect::<String>();
    words(&recorded) == words(&given)
        || (recorded.ends_with(CUT) && given.ends_with(CUT) && start(&recorded) == start(&given))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Compares pairs one after the other and returns the differences of the last, with `~` before soft ones.
    fn check(pairs: &[(Value, Value)]) -> Vec<String> {
        let mut comparer = Comparer::default();
        let mut found = Vec::new();
        for (number, (recorded, given)) in pairs.iter().enumerate() {
            found = comparer.compare(recorded, given, &number.to_string());
        }
        let mark = |difference: &Difference| if difference.is_soft { "~" } else { "" };
        found.iter().map(|found| format!("{}{found}", mark(found))).collect()
    }

    fn version(text: &str) -> Value {
        ServedVersion { scope: "/configmaps".into(), text: text.into() }.write().into()
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let one = |recorded: Value, given: Value| check(&[(recorded, given)]);
        assert_eq!(one(json!({"a": [1, "x", null]}), json!({"a": [1, "x", null]})), [""; 0]);
        assert_eq!(one(json!({"a": 1}), json!({"a": 2})), ["at a\n      recorded  1\n      given     2"]);
        assert_eq!(one(json!({"a": 1}), json!({"a": true})).len(), 1);
        assert_eq!(one(json!({"a": 1}), json!({})), ["at a\n      recorded  1\n      given     <absent>"]);
        assert_eq!(one(json!({}), json!({"a": 1})), ["at a\n      recorded  <absent>\n      given     1"]);
        assert_eq!(one(json!([1]), json!([1, 2])).len(), 1);
        assert_eq!(one(json!({"a": {"b.c": "x"}}), json!({"a": {"b.c": "y"}})).len(), 1);
        assert_eq!(one(json!(["<age>", "<age>"]), json!(["12s", "soon"])).len(), 1);
    }

    #[test]
    fn texts_of_messages_are_soft() {
        let status = |message: &str| json!({"kind": "Status", "message": message});
        assert_eq!(check(&[(status("[b, a] 10"), status("[a, b] 22"))]), [""; 0]);
        let soft = check(&[(status("a"), status("b"))]);
        assert!(soft.len() == 1 && soft[0].starts_with("~at message"), "{soft:?}");
        let strict = check(&[(json!({"message": "a"}), json!({"message": "b"}))]);
        assert!(strict.len() == 1 && strict[0].starts_with("at message"), "{strict:?}");
    }

    #[test]
    fn versions_keep_their_order() {
        let first = || (json!("<rv:1>"), version("7"));
        assert_eq!(check(&[first(), (json!("<rv:1>"), version("7"))]), [""; 0]);
        assert_eq!(check(&[first(), (json!("<rv:2>"), version("9"))]), [""; 0]);
        assert!(
            check(&[first(), (json!("<rv:1>"), version("9"))])[0]
                .contains("must be equal to the one in step 0")
        );
        assert!(check(&[first(), (json!("<rv:2>"), version("7"))])[0].contains("must be newer than"));
        assert!(check(&[(json!("<rv:1>"), version("x"))])[0].contains("a decimal resourceVersion"));
    }

    #[test]
    fn tokens_keep_their_identity() {
        let first = || (json!("<uid:1>"), json!("<uid:5>"));
        assert_eq!(check(&[first(), (json!("x <uid:1>"), json!("x <uid:5>"))]), [""; 0]);
        assert!(check(&[first(), (json!("<uid:1>"), json!("<uid:6>"))])[0].contains("must be the same uid"));
        assert!(
            check(&[first(), (json!("<uid:2>"), json!("<uid:5>"))])[0].contains("must differ from the uid")
        );
    }
}
