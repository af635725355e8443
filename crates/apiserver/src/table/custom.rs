//! Cells of custom kinds, from the columns their definition gives.
//!
//! **Invariant:** a row's cells take a bounded number of steps and bytes ([`Budget`]); a cell beyond them says so, and nothing
//! fails.

use std::io;

use jiff::Timestamp;
use serde_json::Value;

use super::evaluate::{Budget, Exhausted};
use super::jsonpath::Path;
use crate::kinds::printing::{Column, age, read};
use crate::resource::Custom;

/// What a cell shows that would take more steps than its row has left.
const TOO_COSTLY: &str = "<too costly to show>";

/// The compiled columns of one version of a custom kind.
#[derive(Debug)]
pub(crate) struct Columns {
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

    /// The cells of a row, and how many steps they took.
    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> (Vec<Value>, usize) {
        let mut budget = Budget::of_row();
        let mut cells = Vec::with_capacity(self.columns.len());
        cells.push(read::name(object).into());
        for (column, path) in self.columns.iter().skip(1).zip(&self.paths) {
            let shown = path.as_ref().map(|path| {
                let found = path.first(object, &mut budget)?;
                found.map_or(Ok(Value::Null), |value| cell(&column.kind, value, now, &mut budget))
            });
            cells.push(shown.unwrap_or(Ok(Value::Null)).unwrap_or_else(|Exhausted| TOO_COSTLY.into()));
        }
        (cells, budget.spent())
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
fn cell(kind: &str, value: &Value, now: Timestamp, budget: &mut Budget) -> Result<Value, Exhausted> {
    Ok(match (kind, value) {
        ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => value.clone(),
        ("string", Value::String(text)) => {
            budget.take_bytes(text.len())?;
            value.clone()
        }
        ("string", Value::Null) => "<no value>".into(),
        ("string", other) => json_text(other, budget)?.into(),
        ("integer", Value::Number(number)) => whole(number),
        ("date", Value::String(text)) => {
            budget.take_bytes(text.len())?;
            date(text, now).into()
        }
        _ => Value::Null,
    })
}

/// The value as JSON.
fn json_text(value: &Value, budget: &mut Budget) -> Result<String, Exhausted> {
    let mut text = Bounded { bytes: Vec::new(), bytes_max: budget.bytes_left() };
    let written = serde_json::to_writer(&mut text, value);
    budget.take_bytes(text.bytes.len())?;
    written.map_err(|_| Exhausted)?;
    String::from_utf8(text.bytes).map_err(|_| Exhausted)
}

/// Text that is given up once it is too long.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::evaluate::ROW_STEPS_MAX;
    use super::*;

    fn cells(path: &str, count: usize, object: &Value) -> (Vec<Value>, usize) {
        let column = || Column { name: "c".into(), kind: "string".into(), ..Column::default() };
        let columns = Columns::from_pairs((0..count).map(|_| (column(), path)));
        columns.cells(object, Timestamp::UNIX_EPOCH)
    }

    /// Without a common budget this row takes forty million steps.
    #[test]
    fn all_columns_of_a_row_share_one_budget() {
        let object = json!({"metadata": {"name": "x"}, "l": vec![json!({"a": "y"}); 20_000]});
        let (cells, steps) = cells(r#".l[?(@.a=="x")].b"#, 2_000, &object);
        assert_eq!(steps, ROW_STEPS_MAX);
        assert_eq!((&cells[0], &cells[2_000]), (&json!("x"), &json!(TOO_COSTLY)));
    }

    /// Without a common budget this row is as long as its columns are many times its object.
    #[test]
    fn all_cells_of_a_row_together_have_a_length() {
        let text = "x".repeat(100_000);
        for value in [json!(text), json!([[text]])] {
            let (cells, _) = cells(".a", 2_000, &json!({"a": value}));
            let bytes: usize = cells.iter().filter_map(Value::as_str).map(str::len).sum();
            assert!((100_000..1_000_000).contains(&bytes), "{bytes}");
            assert_eq!(cells[2_000], TOO_COSTLY);
        }
    }
}
