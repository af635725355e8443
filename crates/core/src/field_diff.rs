//! Computes which fields a write changed: their paths with old and new values, small enough to be kept in a journal.
//!
//! **Invariant:** the values of Secrets, and of fields whose name suggests a secret, never enter a diff: such a field
//! is only reported as changed. **Invariant:** a diff has at most [`CHANGES_MAX`] changes, with at most
//! [`VALUE_LETTERS_MAX`] letters per value; omitted changes are counted. Only [`FieldDiff::complete`] has no such
//! limits.

use std::collections::HashMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Key;

/// The maximum number of changes in one diff: as many as a person reads, because a journal keeps thousands of diffs.
pub const CHANGES_MAX: usize = 12;

/// The maximum number of letters in one value: a name, a number or the beginning of a string.
pub const VALUE_LETTERS_MAX: usize = 80;

/// The maximum number of letters in a path. Longer ones keep their end, which is more informative.
const PATH_LETTERS_MAX: usize = 160;

/// Metadata fields that change with every write, or that only the server sets.
const BOOKKEEPING: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];

/// Parts of the names of fields whose values must not appear in a log, in lower case and without dashes.
const SENSITIVE: [&str; 8] =
    ["password", "passwd", "passphrase", "token", "apikey", "privatekey", "credential", "secretkey"];

/// An annotation that holds a copy of the whole object, which may be a Secret.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The changes that a write made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldDiff {
    /// The changes, in the order of the fields.
    pub changes: Vec<FieldChange>,
    /// The number of changes left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u32,
}

/// One field that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldChange {
    /// The field: `spec.template.spec.containers[web].image`.
    pub path: String,
    /// Its value before.
    pub old: FieldValue,
    /// Its value after.
    pub new: FieldValue,
}

/// The value of a field, as far as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FieldValue {
    /// The field was absent.
    Absent,
    /// Its JSON, shortened.
    Shown(String),
    /// It is present but not shown.
    Hidden,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl FieldDiff {
    /// Compares two states of an object.
    pub fn between(target: &Key, old: &Value, new: &Value) -> Self {
        let mut comparison = FieldComparison::new(target, true);
        comparison.compare(Some(old), Some(new));
        comparison.diff
    }

    /// Compares two states of an object and omits only bookkeeping and secrets, however long the result: this is for
    /// plans, which people base decisions on.
    pub fn complete(target: &Key, old: &Value, new: &Value) -> Self {
        let mut comparison = FieldComparison { is_complete: true, ..FieldComparison::new(target, true) };
        comparison.compare(Some(old), Some(new));
        comparison.diff
    }

    /// Compares an object with its desired state: fields that `desired` does not mention may have any value.
    pub fn toward(target: &Key, actual: &Value, desired: &Value) -> Self {
        let mut comparison = FieldComparison::new(target, false);
        comparison.compare(Some(actual), Some(desired));
        comparison.diff
    }

    /// Returns the change to one field, given by the names on its path; `[name]` selects a list item.
    pub fn of_field(target: &Key, path: &[&str], old: Option<&Value>, new: Option<&Value>) -> Self {
        let mut comparison = FieldComparison::new(target, true);
        for step in path {
            if step.starts_with('[') { comparison.path.push_str(step) } else { comparison.enter_field(step) }
        }
        comparison.compare(old, new);
        comparison.diff
    }

    /// Returns the change to a field of something that is not an object in the cluster, with values that are already
    /// text.
    pub fn of_text(target: &Key, path: &str, old: &str, new: &str) -> Self {
        let path = path.trim_start_matches('/').replace('/', ".");
        let mut comparison = FieldComparison { path, ..FieldComparison::new(target, true) };
        let value = |text: &str| FieldValue::Shown(shortened(text.to_owned()));
        let (old, new) = if comparison.is_hidden() {
            (FieldValue::Hidden, FieldValue::Hidden)
        } else {
            (value(old), value(new))
        };
        let path = shortened_path(&comparison.path);
        comparison.diff.push(FieldChange { path, old, new });
        comparison.diff
    }

    /// Adds the changes of another diff.
    pub fn extend(&mut self, other: Self) {
        self.omitted += other.omitted;
        for change in other.changes {
            self.push(change);
        }
    }

    /// Returns whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.omitted == 0
    }

    /// Returns roughly how much memory its strings take.
    pub fn weight(&self) -> usize {
        let value = |value: &FieldValue| if let FieldValue::Shown(text) = value { text.len() } else { 0 };
        let change = |change: &FieldChange| {
            size_of::<FieldChange>() + change.path.len() + value(&change.old) + value(&change.new)
        };
        self.changes.iter().map(change).sum()
    }

    fn push(&mut self, change: FieldChange) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push(change);
        } else {
            self.omitted += 1;
        }
    }
}

/// `replicas 2 → 3` and so on, in one line.
impl fmt::Display for FieldDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, change) in self.changes.iter().enumerate() {
            f.write_str(if index > 0 { ", " } else { "" })?;
            change.fmt(f)?;
        }
        if self.omitted > 0 {
            write!(f, " and {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, old, new } = self;
        match (old, new) {
            (FieldValue::Absent, FieldValue::Shown(new)) => write!(f, "{path} = {new}"),
            (FieldValue::Absent, _) => write!(f, "{path} added"),
            (_, FieldValue::Absent) => write!(f, "{path} removed"),
            (FieldValue::Shown(old), FieldValue::Shown(new)) => write!(f, "{path} {old} → {new}"),
            _ => write!(f, "{path} changed"),
        }
    }
}

/// A comparison in progress.
struct FieldComparison {
    diff: FieldDiff,
    path: String,
    is_secret: bool,
    /// Whether fields that only the old state has count as having been removed.
    is_whole: bool,
    /// Whether to keep everything, without shortening or omitting any of it.
    is_complete: bool,
}

impl FieldComparison {
    fn new(target: &Key, is_whole: bool) -> Self {
        let is_secret = target.resource() == "secrets" && target.group().is_empty();
        Self { diff: FieldDiff::default(), path: String::new(), is_secret, is_whole, is_complete: false }
    }

    fn compare(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) if old == new => {}
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.compare_fields(old, new),
            // An object that appears or disappears is reported field by field near the root, where that is more
            // informative.
            (None | Some(Value::Null), Some(Value::Object(new))) if !new.is_empty() => {
                self.compare_fields(&Map::new(), new);
            }
            (Some(Value::Array(old)), Some(Value::Array(new))) => self.compare_items(old, new),
            (None | Some(Value::Null), Some(Value::Array(new))) if self.is_complete && has_parts(new) => {
                self.compare_items(&[], new);
            }
            // Typed objects leave out empty collections and nulls.
            (None | Some(Value::Null), Some(new)) if is_empty(new) => {}
            (Some(old), None | Some(Value::Null)) if is_empty(old) => {}
            (None, None) => {}
            (old, new) => self.add(old, new),
        }
    }

    fn compare_fields(&mut self, old: &Map<String, Value>, new: &Map<String, Value>) {
        let is_metadata = self.path == "metadata";
        let is_shown = |name: &&String| !(is_metadata && BOOKKEEPING.contains(&name.as_str()));
        for name in new.keys().filter(is_shown) {
            self.within_field(name, old.get(name), new.get(name));
        }
        if self.is_whole {
            for name in old.keys().filter(is_shown).filter(|name| !new.contains_key(*name)) {
                self.within_field(name, old.get(name), None);
            }
        }
    }

    fn compare_items(&mut self, old: &[Value], new: &[Value]) {
        let identity = match (old.is_empty(), new.is_empty()) {
            (true, _) => identity_field(new),
            (_, true) => identity_field(old),
            _ => identity_field(old).filter(|field| identity_field(new) == Some(*field)),
        };
        let Some(identity) = identity else {
            if old.len() != new.len() {
                return self.add_list(old, new);
            }
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                self.within(&format!("[{index}]"), Some(old), Some(new));
            }
            return;
        };
        // Items are looked up in maps, because lists may have many thousands of items.
        let by_identity = |items: &'_ [Value]| -> HashMap<String, usize> {
            items.iter().enumerate().map(|(at, item)| (plain_text(&item[identity]), at)).collect()
        };
        let (old_items, new_items) = (by_identity(old), by_identity(new));
        for item in new {
            let before = old_items.get(&plain_text(&item[identity])).map(|at| &old[*at]);
            self.within(&format!("[{}]", plain_text(&item[identity])), before, Some(item));
        }
        for item in old.iter().filter(|item| !new_items.contains_key(&plain_text(&item[identity]))) {
            let step = format!("[{}]", plain_text(&item[identity]));
            let length = self.path.len();
            self.path.push_str(&step);
            self.add(Some(item), None);
            self.path.truncate(length);
        }
    }

    /// Adds the change to a list whose items have no names: the added and the removed items, if that is short.
    fn add_list(&mut self, old: &[Value], new: &[Value]) {
        if self.is_complete && (has_parts(old) || has_parts(new)) {
            for index in 0..old.len().max(new.len()) {
                self.within(&format!("[{index}]"), old.get(index), new.get(index));
            }
            return;
        }
        self.add(Some(&Value::Array(old.to_vec())), Some(&Value::Array(new.to_vec())));
    }

    fn within_field(&mut self, name: &str, old: Option<&Value>, new: Option<&Value>) {
        let length = self.path.len();
        self.enter_field(name);
        self.compare(old, new);
        self.path.truncate(length);
    }

    fn enter_field(&mut self, name: &str) {
        if name.contains(['.', '/', '[']) {
            self.path.extend(["[", name, "]"]);
        } else {
            self.path.push_str(if self.path.is_empty() { "" } else { "." });
            self.path.push_str(name);
        }
    }

    fn within(&mut self, step: &str, old: Option<&Value>, new: Option<&Value>) {
        let length = self.path.len();
        self.path.push_str(step);
        self.compare(old, new);
        self.path.truncate(length);
    }

    fn add(&mut self, old: Option<&Value>, new: Option<&Value>) {
        let (is_hidden, is_complete) = (self.is_hidden(), self.is_complete);
        let shown = |value: &Value| {
            let text = outlined(value);
            if is_complete { text } else { shortened(text) }
        };
        let value = |value: Option<&Value>| match value {
            None | Some(Value::Null) => FieldValue::Absent,
            Some(value) => match shown(value) {
                text if is_hidden || tells_a_secret(&text) => FieldValue::Hidden,
                text => FieldValue::Shown(text),
            },
        };
        let (old, new) = (value(old), value(new));
        if is_complete {
            self.diff.changes.push(FieldChange { path: self.path.clone(), old, new });
        } else {
            self.diff.push(FieldChange { path: shortened_path(&self.path), old, new });
        }
    }

    fn is_hidden(&self) -> bool {
        let path = &self.path;
        let is_data = ["data", "stringData"].iter().any(|field| {
            path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
        self.is_secret && is_data || path.contains(LAST_APPLIED) || names_a_secret(path)
    }
}

/// Returns whether a name on the path suggests that its value is a secret.
fn names_a_secret(path: &str) -> bool {
    let plain = plain_letters(path);
    let is_secret = |name: &str| name.ends_with("secret");
    SENSITIVE.iter().any(|word| plain.contains(word)) || plain.split(['.', '[', ']']).any(is_secret)
}

/// Returns whether a string, such as a command argument, holds a secret: `--password=hunter2`, `["--token","x"]`.
fn tells_a_secret(text: &str) -> bool {
    let plain = plain_letters(text);
    SENSITIVE.iter().any(|word| {
        let ends = plain.match_indices(word).map(|(at, word)| &plain[at + word.len()..]);
        ends.into_iter().any(|rest| rest.starts_with(['=', ':']) || rest.starts_with("\","))
    })
}

/// Returns a string in lower case, without word separators.
fn plain_letters(text: &str) -> String {
    text.to_lowercase().chars().filter(|letter| !matches!(letter, '-' | '_')).collect()
}

/// Returns whether the items of a list have fields or items of their own.
fn has_parts(items: &[Value]) -> bool {
    items.iter().any(|item| item.is_object() || item.is_array())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Returns the field that identifies the items of a list: conditions have a type, most other items a name.
fn identity_field(items: &[Value]) -> Option<&'static str> {
    ["name", "type", "uid", "key", "mountPath"].into_iter().find(|field| {
        let mut ids: Vec<&str> = items.iter().filter_map(|item| item.get(field)?.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        !items.is_empty() && ids.len() == items.len()
    })
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the value in the form in which it is shown: objects and lists of objects are represented by their size.
/// Strings within an object are not searched for secrets, so only lists of plain values are shown.
fn outlined(value: &Value) -> String {
    match value {
        Value::Object(fields) => format!("{{{} fields}}", fields.len()),
        Value::Array(items) if has_parts(items) => {
            format!("[{} items]", items.len())
        }
        plain => plain.to_string(),
    }
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(VALUE_LETTERS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

fn shortened_path(path: &str) -> String {
    match path.char_indices().rev().nth(PATH_LETTERS_MAX - 1) {
        Some((start, _)) if start > 0 => format!("…{}", &path[start..]),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Key {
        Key::new("apps", "deployments", "default", "web")
    }

    #[track_caller]
    fn check(old: Value, new: Value, expected: &str) {
        assert_eq!(FieldDiff::between(&deployment(), &old, &new).to_string(), expected);
    }

    #[test]
    fn fields_are_told_with_both_values() {
        check(json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 3}}), "spec.replicas 2 → 3");
        check(json!({}), json!({"spec": {"paused": true}}), "spec.paused = true");
        check(json!({"a": "x", "b": 1}), json!({"a": "y"}), "a \"x\" → \"y\", b removed");
        check(json!({"a": null, "l": [], "o": {}}), json!({}), "");
        let labels = |value: &str| json!({"metadata": {"labels": {"app.dev/tier": value}}});
        check(labels("a"), labels("b"), "metadata.labels[app.dev/tier] \"a\" → \"b\"");
    }

    #[test]
    fn items_are_known_by_their_names() {
        let containers = |image: &str| json!({"c": [{"name": "web", "image": image}, {"name": "log"}]});
        check(containers("a"), containers("b"), "c[web].image \"a\" → \"b\"");
        check(
            json!({"c": [{"name": "x"}]}),
            json!({"c": [{"name": "y"}]}),
            "c[y].name = \"y\", c[x] removed",
        );
        check(json!({"l": [1, 2]}), json!({"l": [1, 3]}), "l[1] 2 → 3");
        check(json!({"l": ["a"]}), json!({"l": ["a", "b"]}), "l [\"a\"] → [\"a\",\"b\"]");
        let conditions = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
        check(conditions("True"), conditions("False"), "conditions[Ready].status \"True\" → \"False\"");
    }

    /// Quadratic work would take minutes here.
    #[test]
    fn long_lists_are_compared_in_linear_time() {
        let list = |numbers: &mut dyn Iterator<Item = u32>| -> Value {
            json!({"l": numbers.map(|number| json!({"name": number.to_string()})).collect::<Vec<_>>()})
        };
        check(list(&mut (0..100_000)), list(&mut (0..100_000).rev()), "");
        check(list(&mut (0..100_000)), list(&mut (0..99_999)), "l[99999] removed");
    }

    #[test]
    fn bookkeeping_is_left_out() {
        let meta =
            |version: &str| json!({"metadata": {"resourceVersion": version, "managedFields": [version]}});
        check(meta("1"), meta("2"), "");
    }

    #[test]
    fn a_complete_diff_leaves_nothing_out() {
        let object = |from: u32| -> Value {
            let fields = (from..from + 20).map(|number| (format!("f{number:03}"), json!("x".repeat(100))));
            Value::Object(fields.collect())
        };
        let diff = FieldDiff::complete(&deployment(), &object(0), &object(100));
        assert_eq!((diff.changes.len(), diff.omitted), (40, 0));
        let is_whole =
            |change: &FieldChange| matches!(&change.new, FieldValue::Shown(text) if text.len() == 102);
        assert_eq!(diff.changes.iter().filter(|change| is_whole(change)).count(), 20);
        let list =
            |ports: &[u32]| json!({"l": ports.iter().map(|port| json!({"port": port})).collect::<Vec<_>>()});
        let diff = FieldDiff::complete(&deployment(), &list(&[1]), &list(&[2, 3]));
        assert_eq!(diff.to_string(), "l[0].port 1 → 2, l[1].port = 3");
        let diff =
            FieldDiff::complete(&deployment(), &json!({}), &json!({"c": [{"name": "web", "image": "a"}]}));
        assert_eq!(diff.to_string(), "c[web].image = \"a\", c[web].name = \"web\"");
        let secret = Key::new("", "secrets", "default", "login");
        let diff = FieldDiff::complete(&secret, &json!({}), &json!({"data": {"who": "hunter2"}}));
        assert_eq!(diff.to_string(), "data.who added");
    }

    #[test]
    fn desired_state_says_nothing_about_other_fields() {
        let diff =
            |actual: Value, desired: Value| FieldDiff::toward(&deployment(), &actual, &desired).to_string();
        assert_eq!(diff(json!({"a": 1, "b": 2}), json!({"a": 3})), "a 1 → 3");
        assert_eq!(diff(json!({"a": {"b": 1, "c": 1}}), json!({"a": {"b": 1}})), "");
    }

    #[test]
    fn secrets_are_never_shown() {
        let secret = Key::new("", "secrets", "default", "login");
        let check = |target: &Key, old: Value, new: Value, expected: &str| {
            let diff = FieldDiff::between(target, &old, &new);
            assert_eq!(diff.to_string(), expected);
            assert!(!serde_json::to_string(&diff).unwrap().contains("hunter"), "{diff:?}");
        };
        let data = |value: &str| json!({"data": {"who": value, "a.b": value}, "type": value.len()});
        check(&secret, data("hunter2"), data("hunter33"), "data[a.b] changed, data.who changed, type 7 → 8");
        check(&secret, json!({}), json!({"stringData": {"x": "hunter2"}}), "stringData.x added");
        check(
            &deployment(),
            json!({}),
            json!({"spec": {"adminPassword": "hunter2"}}),
            "spec.adminPassword added",
        );
        let env = |value: &str| json!({"env": [{"name": "API_TOKEN", "value": value}]});
        check(&deployment(), env("hunter2"), env("hunter3"), "env[API_TOKEN].value changed");
        check(
            &deployment(),
            json!({"env": []}),
            env("hunter2"),
            "env[API_TOKEN].name added, env[API_TOKEN].value added",
        );
        check(&deployment(), json!({}), json!({"clientSecret": "hunter2"}), "clientSecret added");
        let arguments = |list: &[&str]| json!({"args": list});
        check(&deployment(), arguments(&["a"]), arguments(&["a", "--password=hunter2"]), "args changed");
        check(&deployment(), arguments(&["a"]), arguments(&["--api-key", "hunter2"]), "args changed");
        let said = |text: &str| json!({"message": text});
        check(&deployment(), said("a"), said("the token expired"), "message \"a\" → \"the token expired\"");
        let applied = |value: &str| json!({"metadata": {"annotations": {LAST_APPLIED: value}}});
        let expected = format!("metadata.annotations[{LAST_APPLIED}] changed");
        check(&deployment(), applied("hunter2"), applied("hunter3"), &expected);
        check(
            &deployment(),
            json!({"l": ["a"]}),
            json!({"l": [{"value": "hunter2"}, 1]}),
            "l [\"a\"] → [2 items]",
        );
    }

    #[test]
    fn a_diff_is_bounded_and_says_what_it_lacks() {
        let many: Map<String, Value> =
            (0..100).map(|number| (format!("f{number:03}"), json!("ü".repeat(500)))).collect();
        let diff = FieldDiff::between(&deployment(), &json!({}), &Value::Object(many));
        assert_eq!((diff.changes.len(), diff.omitted), (CHANGES_MAX, 100 - 12));
        assert!(diff.to_string().ends_with(" and 88 more"));
        assert!(diff.weight() < 4096, "{}", diff.weight());
        let deep = (0..100).fold(json!(1), |value, _| json!({"abcdefgh": value}));
        let diff = FieldDiff::between(&deployment(), &json!({}), &deep);
        assert_eq!(diff.changes[0].path.chars().count(), PATH_LETTERS_MAX + 1);
    }
}
