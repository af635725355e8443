//! Describes how an external resource differs from its desired state, field by field, as text for people.

use std::fmt;

use homeostat_core::{FieldDiff, Key};
use serde::Serialize;
use serde_json::Value;

use crate::json_diff::differences;

/// One field that differs from the desired state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Difference {
    /// Which field: `/colour`.
    pub path: String,
    /// The desired value.
    pub want: String,
    /// The actual value.
    pub have: String,
}

impl Difference {
    /// Describes a field and its two values.
    pub fn new(path: impl Into<String>, want: impl fmt::Display, have: impl fmt::Display) -> Self {
        Self { path: path.into(), want: want.to_string(), have: have.to_string() }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, should be {}", self.path, self.have, self.want)
    }
}

/// Compares field by field as JSON; fields that `want` does not mention may have any value.
pub fn compare(want: &impl Serialize, have: &impl Serialize) -> Vec<Difference> {
    let (Ok(want), Ok(have)) = (serde_json::to_value(want), serde_json::to_value(have)) else {
        return vec![Difference::new("", "JSON", "something else")];
    };
    let at = |value: &Value, path: &str| value.pointer(path).unwrap_or(&Value::Null).to_string();
    let paths = differences(&want, &have);
    paths.iter().map(|path| Difference::new(path, at(&want, path), at(&have, path))).collect()
}

/// Returns all differences in one line.
pub(super) fn describe_differences(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns the differences as the changes made by a write that removes them.
pub(super) fn field_diff(target: &Key, differences: &[Difference]) -> FieldDiff {
    let mut diff = FieldDiff::default();
    for Difference { path, want, have } in differences {
        diff.extend(FieldDiff::of_text(target, path, have, want));
    }
    diff
}

pub(super) fn paths(differences: &[Difference]) -> Vec<String> {
    differences.iter().map(|difference| difference.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_wanted_is_compared() {
        let want = json!({"colour": "red", "labels": {"a": "b"}});
        let have = json!({"id": 7, "colour": "blue", "labels": {"a": "b", "c": "d"}});
        assert_eq!(describe_differences(&compare(&want, &have)), "/colour is \"blue\", should be \"red\"");
        assert_eq!(compare(&want, &want), []);
    }
}
