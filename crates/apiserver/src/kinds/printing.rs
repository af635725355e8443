//! What a kind declares about its tables: the columns, and the functions that fill them.
//!
//! **Invariant:** a kind prints exactly as many cells as it has columns; a test checks them all. Wide columns are always
//! included, the client hides them. Writing tables is done elsewhere.

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
