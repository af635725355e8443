//! Prints the cells of custom kinds from the columns in their definition.
//!
//! **Invariant:** the cells of a row take a bounded number of steps and bytes ([`RowBudget`]); a cell beyond the budget
//! says so instead of failing.

use std::io;

use jiff::Timestamp;
use serde_json::Value;

use super::evaluate::{RowBudget, RowBudgetExhausted};
use super::jsonpath::JsonPath;
use super::{Column, age};
use crate::object::read;

/// The text shown in a cell that would take more steps than its row has left.
const TOO_COSTLY: &str = "<too costly to show>";

/// The compiled columns of one version of a custom kind.
#[derive(Debug)]
pub(crate) struct CustomColumns {
    pub(crate) columns: Vec<Column>,
    /// One path for each column except the first, which is the name. A path that cannot be parsed yields empty cells;
    /// the definition should have been rejected.
    paths: Vec<Option<JsonPath>>,
}

impl CustomColumns {
    /// Compiles the `additionalPrinterColumns` of a kind; a kind without any shows its age.
    pub(crate) fn new(columns: &[Value]) -> Self {
        if columns.is_empty() {
            return Self::from_pairs([(Column::date("Age"), ".metadata.creationTimestamp")]);
        }
        Self::from_pairs(columns.iter().map(|column| (define(column), read::string_at(column, "jsonPath"))))
    }

    /// Returns the columns of a custom kind's Scale.
    pub(crate) fn scale() -> Self {
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
            paths.push(JsonPath::parse(path));
        }
        Self { columns, paths }
    }

    /// Returns the cells of a row and the number of steps they took.
    pub(crate) fn cells(&self, object: &Value, now: Timestamp) -> (Vec<Value>, usize) {
        let mut budget = RowBudget::of_row();
        let mut cells = Vec::with_capacity(self.columns.len());
        cells.push(read::name(object).into());
        for (column, path) in self.columns.iter().skip(1).zip(&self.paths) {
            let shown = path.as_ref().map(|path| {
                let found = path.first(object, &mut budget)?;
                found.map_or(Ok(Value::Null), |value| cell(&column.kind, value, now, &mut budget))
            });
            cells.push(
                shown.unwrap_or(Ok(Value::Null)).unwrap_or_else(|RowBudgetExhausted| TOO_COSTLY.into()),
            );
        }
        (cells, budget.spent())
    }
}

fn define(column: &Value) -> Column {
    let path = read::string_at(column, "jsonPath");
    let description = match read::string_at(column, "description") {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        description => description.to_owned(),
    };
    Column {
        name: read::string_at(column, "name").to_owned().into(),
        kind: read::string_at(column, "type").to_owned().into(),
        format: read::string_at(column, "format").to_owned().into(),
        description: description.into(),
        priority: i32::try_from(read::integer_at(column, "priority")).unwrap_or_default(),
    }
}

/// Returns the value in the type of its column; `null` if it has a different type.
fn cell(
    kind: &str,
    value: &Value,
    now: Timestamp,
    budget: &mut RowBudget,
) -> Result<Value, RowBudgetExhausted> {
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

/// Returns the value as JSON.
fn json_text(value: &Value, budget: &mut RowBudget) -> Result<String, RowBudgetExhausted> {
    let mut text = BoundedJson { bytes: Vec::new(), bytes_max: budget.bytes_left() };
    let written = serde_json::to_writer(&mut text, value);
    budget.take_bytes(text.bytes.len())?;
    written.map_err(|_| RowBudgetExhausted)?;
    String::from_utf8(text.bytes).map_err(|_| RowBudgetExhausted)
}

/// Text whose writer fails once it is too long.
struct BoundedJson {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl io::Write for BoundedJson {
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
        "" | "null" => age::format_age_since(None, now),
        text => text
            .parse()
            .map_or_else(|_| "<invalid>".to_owned(), |time| age::format_age_since(Some(time), now)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::evaluate::ROW_STEPS_MAX;
    use super::*;

    fn cells(path: &str, count: usize, object: &Value) -> (Vec<Value>, usize) {
        let column = || Column { name: "c".into(), kind: "string".into(), ..Column::default() };
        let columns = CustomColumns::from_pairs((0..count).map(|_| (column(), path)));
        columns.cells(object, Timestamp::UNIX_EPOCH)
    }

    /// Without a shared budget this row would take forty million steps.
    #[test]
    fn all_columns_of_a_row_share_one_budget() {
        let object = json!({"metadata": {"name": "x"}, "l": vec![json!({"a": "y"}); 20_000]});
        let (cells, steps) = cells(r#".l[?(@.a=="x")].b"#, 2_000, &object);
        assert_eq!(steps, ROW_STEPS_MAX);
        assert_eq!((&cells[0], &cells[2_000]), (&json!("x"), &json!(TOO_COSTLY)));
    }

    /// Without a shared budget this row would be as long as its object times the number of its columns.
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
