//! The report of a comparison: our figure, theirs, the target, and whether it is reached.

use serde::Serialize;

/// One line of a report: the same measurement on our side and on the other.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReportRow {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) theirs: Option<f64>,
    pub(crate) target: ReportTarget,
    is_reached: bool,
}

/// The target for our side.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReportTarget {
    /// At least this many times theirs: more is better.
    TimesMore(f64),
    /// At most theirs divided by this: less is better.
    TimesLess(f64),
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
}

impl ReportRow {
    /// Creates a line that compares both.
    pub(crate) fn beside(
        name: impl Into<String>,
        unit: &'static str,
        figures: [f64; 2],
        target: ReportTarget,
    ) -> Self {
        let [ours, theirs] = figures;
        Self::new(name.into(), unit, ours, Some(theirs), target)
    }

    /// Creates a line about our side alone.
    pub(crate) fn alone(
        name: impl Into<String>,
        unit: &'static str,
        ours: f64,
        target: ReportTarget,
    ) -> Self {
        Self::new(name.into(), unit, ours, None, target)
    }

    fn new(name: String, unit: &'static str, ours: f64, theirs: Option<f64>, target: ReportTarget) -> Self {
        let is_reached = match (target, theirs) {
            (ReportTarget::AtLeast(bound), _) => ours >= bound,
            (ReportTarget::AtMost(bound), _) => ours <= bound,
            (ReportTarget::TimesMore(factor), Some(theirs)) => ours > 0.0 && ours >= theirs * factor,
            (ReportTarget::TimesLess(factor), Some(theirs)) => ours <= theirs / factor,
            _ => true,
        };
        let row = Self { name, unit, ours, theirs, target, is_reached };
        eprintln!("  {}", row.line());
        row
    }

    fn line(&self) -> String {
        let theirs = self.theirs.map_or_else(|| "-".to_owned(), number);
        let target = match self.target {
            ReportTarget::TimesMore(factor) => format!(">= {factor}x"),
            ReportTarget::TimesLess(1.0) => "less".to_owned(),
            ReportTarget::TimesLess(factor) => format!("<= 1/{factor}"),
            ReportTarget::AtLeast(bound) => format!(">= {}", number(bound)),
            ReportTarget::AtMost(bound) => format!("<= {}", number(bound)),
        };
        let mark = if self.is_reached { "reached" } else { "MISSED" };
        format!(
            "{:<58} {:>10} {theirs:>12}  {:<13} {target:>8} {mark}",
            self.name,
            number(self.ours),
            self.unit
        )
    }
}

/// Prints the lines under the names of the two sides.
pub(crate) fn print(rows: &[ReportRow], other: &str, as_json: bool) {
    if as_json {
        println!("{}", serde_json::to_string_pretty(rows).expect("rows are plain data"));
        return;
    }
    println!("{:<58} {:>10} {:>12}  {:<13} {:>8}", "", "homeostat", other, "unit", "target");
    for row in rows {
        println!("{}", row.line());
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
