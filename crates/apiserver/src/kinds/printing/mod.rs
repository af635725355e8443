//! What a kind declares about its tables: the columns, and the functions that fill them.
//!
//! **Invariant:** a kind prints exactly as many cells as it has columns; a test checks them all. Wide columns are always
//! included, the client hides them. Writing tables is done elsewhere.

pub(crate) mod age;
pub(crate) mod read;
pub(crate) mod selectors;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// Makes the cells of one object.
pub(crate) type Cells = fn(&Value, Timestamp) -> Vec<Value>;
/// Makes the conditions of one object's row, if it has any.
pub(crate) type Conditions = fn(&Value) -> Option<Value>;

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
    /// The column every table of objects starts with.
    pub(crate) const NAME: Self = Self::names("Name");

    /// A column of texts.
    pub(crate) const fn text(name: &'static str) -> Self {
        Self::new(name, "string", "")
    }

    /// A column of names of objects.
    pub(crate) const fn names(name: &'static str) -> Self {
        Self::new(name, "string", "name")
    }

    /// A column of whole numbers.
    pub(crate) const fn number(name: &'static str) -> Self {
        Self::new(name, "integer", "")
    }

    /// A column of booleans.
    pub(crate) const fn truth(name: &'static str) -> Self {
        Self::new(name, "boolean", "")
    }

    /// A column of points in time.
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

    /// The same, shown only when everything is asked for.
    pub(crate) const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }
}

/// The cells of kinds that print their name and age.
pub(crate) fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), age::of(object, now).into()]
}

/// Names and images of the containers below a pod spec.
pub(crate) fn containers(object: &Value, path: &str) -> [Value; 2] {
    let containers = read::list(object, path);
    ["name", "image"].map(|field| {
        read::joined(containers.iter().map(|container| read::text(container, field)), ",").into()
    })
}

/// The first texts of a list, and how many more there are.
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
