//! What a measurement says, and how it is printed.

use serde::Serialize;

/// One line of a report: the same thing measured on ours and on the other.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) ours: f64,
    pub(super) theirs: Option<f64>,
    /// More is better; otherwise less is.
    pub(super) more_is_better: bool,
}

impl Row {
    /// How many times better ours is.
    fn factor(&self) -> Option<f64> {
        let theirs = self.theirs?;
        Some(if self.more_is_better { self.ours / theirs } else { theirs / self.ours })
    }
}

pub(super) fn print(rows: &[Row], as_json: bool) {
    if as_json {
        println!("{}", serde_json::to_string_pretty(rows).expect("rows are plain data"));
        return;
    }
    println!("{:<52} {:>14} {:>14} {:>8}  unit", "", "homeostat", "kube-runtime", "better");
    for row in rows {
        let theirs = row.theirs.map_or_else(|| "-".to_owned(), number);
        let factor = row.factor().map_or_else(|| "-".to_owned(), |factor| format!("{factor:.1}x"));
        println!("{:<52} {:>14} {:>14} {:>8}  {}", row.name, number(row.ours), theirs, factor, row.unit);
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
