//! Cells of custom kinds, from the columns their definition gives.

use jiff::Timestamp;
use serde_json::Value;

use super::jsonpath::Path;
use super::{age, read};
use crate::kinds::printing::Column;
use crate::resource::Custom;

/// The compiled columns of one version of a custom kind.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) columns: Vec<Column>,
    /// One for each column but the first, which is the name. A path that does not parse gives empty cells; the
    /// definition should have been refused.
    paths: Vec<Option<Path>>,
}

impl Columns {
    /// The columns of the kind; without any, its age.
    pub(super) fn new(custom: &Custom) -> Self {
        if custom.columns.is_empty() {
            return Self::from_pairs([(Column::date("Age"), ".metadata.creationTimestamp")]);
        }
        Self::from_pairs(custom.columns.iter().map(|column| (define(column), read::text(column, "jsonPath"))))
    }

    /// The columns of a custom kind's Scale.
    pub(super) fn scale() -> Self {
        Self::from_pairs([
            (Column::number("Desired"), ".spec.replicas"),
            (Column::number("Available"), ".status.replicas"),
            (Column::date("Age"), ".metadata.creationTimestamp"),
        ])
    }

    fn from_pairs<'a>(pairs: impl IntoIterator<Item = (Column, &'a str)>) -> Self {
        let (mut columns, mut paths) = (vec![Column::NAME], Vec::new());
        for (column, path) in pairs {
            columns.push(column);
            paths.push(Path::parse(path));
        }
        Self { columns, paths }
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let own = self.columns.iter().skip(1).zip(&self.paths).map(|(column, path)| {
            let found = path.as_ref().and_then(|path| path.first(object));
            found.map_or(Value::Null, |value| cell(&column.kind, value, now))
        });
        std::iter::once(read::name(object).into()).chain(own).collect()
    }
}

fn define(column: &Value) -> Column {
    let path = read::text(column, "jsonPath");
    let description = match read::text(column, "description") {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        description => description.to_owned(),
    };
    Column {
        name: read::text(column, "name").to_owned().into(),
        kind: read::text(column, "type").to_owned().into(),
        format: read::text(column, "format").to_owned().into(),
        description: description.into(),
        priority: i32::try_from(read::number(column, "priority")).unwrap_or_default(),
    }
}

/// The value in the type of its column; `null` when it has another.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => {
            value.clone()
        }
        ("string", Value::Null) => "<no value>".into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => whole(number),
        ("date", Value::String(text)) => date(text, now).into(),
        _ => Value::Null,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction in an integer column is cut off, as kubectl shows it"
)]
fn whole(number: &serde_json::Number) -> Value {
    number.as_i64().or_else(|| number.as_f64().map(|number| number as i64)).map_or(Value::Null, Value::from)
}

fn date(text: &str, now: Timestamp) -> String {
    match text {
        "" | "null" => age::since(None, now),
        text => text.parse().map_or_else(|_| "<invalid>".to_owned(), |time| age::since(Some(time), now)),
    }
}
