//! Column definitions: those of the built-in kinds from one table of facts, and the two every kind without its own
//! columns has.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Which columns the built-in kinds have, by Kind.
const BUILT_IN: &str = include_str!("../../facts/printer_columns.json");

static COLUMNS: LazyLock<HashMap<Box<str>, Vec<Column>>> =
    LazyLock::new(|| serde_json::from_str(BUILT_IN).expect("the table of columns is checked by a test"));

/// One column.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Column {
    pub(super) name: Box<str>,
    #[serde(rename = "type")]
    pub(super) kind: Box<str>,
    #[serde(default)]
    pub(super) format: Box<str>,
    #[serde(default)]
    pub(super) description: Box<str>,
    #[serde(default)]
    pub(super) priority: i32,
}

impl Column {
    /// The column every table of objects starts with.
    pub(super) fn name() -> Self {
        Self { name: "Name".into(), kind: "string".into(), format: "name".into(), ..Self::default() }
    }
}

/// The columns of a built-in kind, if it has its own.
pub(super) fn built_in(kind: &str) -> Option<&'static [Column]> {
    COLUMNS.get(kind).map(Vec::as_slice)
}

/// The columns of kinds without their own.
pub(super) fn fallback() -> Vec<Column> {
    let created = Column { name: "Created At".into(), kind: "date".into(), ..Column::default() };
    vec![Column::name(), created]
}
