//! Computes the difference between two states, typed and field by field.
//!
//! Objects are compared member by member; any other value, including a list, is compared as a whole. A member that
//! appears or disappears is one change, with everything below it.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

/// The changes since the last state that the handler finished with.
#[derive(Clone, Debug)]
pub struct Diff<K> {
    /// That state: spec, labels and annotations, without status. `None` if this handler handles the object for the
    /// first time because it is new in the program.
    pub old: Option<Arc<K>>,
    /// The state to handle.
    pub new: Arc<K>,
    /// The fields that differ, in order of their paths.
    pub changes: Vec<FieldChange>,
}

impl<K> Diff<K> {
    /// Returns the changes at or below a path, with paths relative to it: `diff.under(&["spec", "config"])`. A map that
    /// appears or disappears as a whole is reported member by member.
    pub fn under(&self, path: &[&str]) -> Vec<FieldChange> {
        self.changes.iter().flat_map(|change| change.under(path)).collect()
    }

    /// Returns whether anything changed at or below this path.
    pub fn touches(&self, path: &[&str]) -> bool {
        !self.under(path).is_empty()
    }
}

/// The old and the new value of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldUpdate<V> {
    /// The value that the handler last finished with; `None` on the first call.
    pub old: Option<V>,
    /// The current value.
    pub new: V,
}

impl<V: Serialize> FieldUpdate<V> {
    /// Returns the differences within the field, member by member, if it is a map or a structure.
    pub fn changes(&self) -> Vec<FieldChange> {
        let value = |value: &V| serde_json::to_value(value).ok().filter(|value| !value.is_null());
        member_by_member(self.old.as_ref().and_then(value), value(&self.new))
    }
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// The path of the field: the names of the members that lead to it.
    pub path: Vec<String>,
    /// The old value; `None` if the field did not exist.
    pub old: Option<Value>,
    /// The new value; `None` if the field is gone.
    pub new: Option<Value>,
}

impl FieldChange {
    fn under(&self, path: &[&str]) -> Vec<Self> {
        let shared = self.path.iter().zip(path).take_while(|(have, want)| have == *want).count();
        if shared == path.len() && shared < self.path.len() {
            return vec![Self { path: self.path[shared..].to_vec(), ..self.clone() }];
        }
        if shared < self.path.len() {
            return Vec::new();
        }
        // The change is at the requested path or above it: compare its values at the rest of the path.
        let within = |value: &Option<Value>| {
            path[shared..].iter().try_fold(value.as_ref()?, |value, name| value.get(name)).cloned()
        };
        member_by_member(within(&self.old), within(&self.new))
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
        write!(f, "{}: {} -> {}", self.path.join("."), show(&self.old), show(&self.new))
    }
}

/// Returns the differences; a map that appears or disappears as a whole is compared with an empty one.
fn member_by_member(old: Option<Value>, new: Option<Value>) -> Vec<FieldChange> {
    match (old, new) {
        (None, Some(new @ Value::Object(_))) => changes(&json!({}), &new),
        (Some(old @ Value::Object(_)), None) => changes(&old, &json!({})),
        (old, new) => changes(&old.unwrap_or_default(), &new.unwrap_or_default()),
    }
}

/// Returns the differences. Null counts as absent.
pub(super) fn changes(old: &Value, new: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(Some(old), Some(new), &mut Vec::new(), &mut found);
    found
}

fn compare(old: Option<&Value>, new: Option<&Value>, path: &mut Vec<String>, found: &mut Vec<FieldChange>) {
    let (old, new) = (old.filter(|value| !value.is_null()), new.filter(|value| !value.is_null()));
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let gone = old.keys().filter(|name| !new.contains_key(*name));
            let mut names: Vec<&String> = new.keys().chain(gone).collect();
            names.sort_unstable();
            for name in names {
                path.push(name.clone());
                compare(old.get(name), new.get(name), path, found);
                path.pop();
            }
        }
        (old, new) if old == new => {}
        (old, new) => found.push(FieldChange { path: path.clone(), old: old.cloned(), new: new.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
    fn check(old: Value, new: Value, expected: &[&str]) {
        let found: Vec<String> = changes(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn field_by_field() {
        check(json!({"a": 1}), json!({"a": 1}), &[]);
        check(json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 3}}), &["a.b: 1 -> 3", "a.c: 2 -> nothing"]);
        check(json!({}), json!({"a": {"b": 1}}), &[r#"a: nothing -> {"b":1}"#]);
        check(json!({"a": [1]}), json!({"a": [1, 2]}), &["a: [1] -> [1,2]"]);
        check(json!({"a": null}), json!({}), &[]);
        check(Value::Null, json!({"a": 1}), &[r#": nothing -> {"a":1}"#]);
    }

    #[test]
    fn under_a_path() {
        #[track_caller]
        #[expect(clippy::needless_pass_by_value, reason = "rows read better with literals")]
        fn check(old: Value, new: Value, path: &[&str], expected: &[&str]) {
            let diff = Diff { old: None, new: Arc::new(()), changes: changes(&old, &new) };
            let found: Vec<String> = diff.under(path).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected);
        }
        let (old, new) = (json!({"spec": {"a": 1, "b": 2}}), json!({"spec": {"a": 3, "b": 2}}));
        check(old.clone(), new.clone(), &["spec"], &["a: 1 -> 3"]);
        check(old.clone(), new.clone(), &["spec", "a"], &[": 1 -> 3"]);
        check(old.clone(), new.clone(), &["spec", "b"], &[]);
        check(json!({}), new.clone(), &["spec", "b"], &[": nothing -> 2"]);
        check(Value::Null, new, &["spec"], &["a: nothing -> 3", "b: nothing -> 2"]);
        check(old, json!({}), &["spec", "a"], &[": 1 -> nothing"]);
    }
}
