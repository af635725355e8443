//! Declares the tables of a kind: the columns, and the functions that print their cells. Columns of custom kinds are
//! compiled from the paths in their definition (`custom`, `jsonpath`, `evaluate`).
//!
//! **Invariant:** a kind prints exactly as many cells as it has columns; a test checks all of them. Wide columns are
//! always included; the client hides them. `response_forms` writes the tables.

pub(crate) mod age;
mod custom;
mod evaluate;
mod jsonpath;
pub(crate) mod selectors;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::object::read;

pub(crate) use self::custom::CustomColumns;

/// Returns the cells of one object.
pub(crate) type PrintCells = fn(&Value, Timestamp) -> Vec<Value>;
/// Returns the conditions of one object's row, if it has any.
pub(crate) type PrintConditions = fn(&Value) -> Option<Value>;

/// One column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Column {
    pub(crate) name: Cow<'static, str>,
    #[serde(rename = "type")]
    pub(crate) kind: Cow<'static, str>,
    pub(crate) format: Cow<'static, str>,
    pub(crate) description: Cow<'static, str>,
    pub(crate) priority: i32,
}

impl Column {
    /// The first column of every table of objects.
    pub(crate) const NAME: Self = Self::names("Name");

    /// Returns a column of strings.
    pub(crate) const fn text(name: &'static str) -> Self {
        Self::new(name, "string", "")
    }

    /// Returns a column of object names.
    pub(crate) const fn names(name: &'static str) -> Self {
        Self::new(name, "string", "name")
    }

    /// Returns a column of whole numbers.
    pub(crate) const fn number(name: &'static str) -> Self {
        Self::new(name, "integer", "")
    }

    /// Returns a column of booleans.
    pub(crate) const fn truth(name: &'static str) -> Self {
        Self::new(name, "boolean", "")
    }

    /// Returns a column of points in time.
    pub(crate) const fn date(name: &'static str) -> Self {
        Self::new(name, "date", "")
    }

    const fn new(name: &'static str, kind: &'static str, format: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            format: Cow::Borrowed(format),
            description: Cow::Borrowed(""),
            priority: 0,
        }
    }

    /// Makes the column wide: clients show it only on request.
    pub(crate) const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// Returns the cells of kinds that print their name and age.
pub(crate) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), age::age_of_object(object, now).into()]
}

/// Returns the names and images of the containers below a pod spec.
pub(crate) fn container_names_and_images(object: &Value, path: &str) -> [Value; 2] {
    let containers = read::list_at(object, path);
    ["name", "image"].map(|field| {
        read::joined(containers.iter().map(|container| read::string_at(container, field)), ",").into()
    })
}

/// Returns the first strings of a list and the number of omitted ones.
pub(crate) fn shortened(texts: &[String], max: usize, separator: &str) -> String {
    let shown = texts[..texts.len().min(max)].join(separator);
    if texts.len() > max { format!("{shown} + {} more...", texts.len() - max) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        let texts = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(shortened(&texts, 3, ","), "a,b,c + 1 more...");
        assert_eq!(shortened(&texts[..3], 3, ","), "a,b,c");
    }
}
