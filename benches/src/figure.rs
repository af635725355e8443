//! A measured figure, with the reference it is compared with and the target derived from it.

use serde::Serialize;

/// One line of the result.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// The measured value.
    pub(crate) value: f64,
    /// The unit of the value.
    pub(crate) unit: &'static str,
    /// The target, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<FigureTarget>,
}

/// A limit.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FigureTarget {
    /// At least this much.
    AtLeast(f64),
    /// At most this much.
    AtMost(f64),
}

impl Figure {
    /// Creates a figure without a target.
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value, unit, target: None }
    }

    /// Adds the target.
    pub(crate) fn target(mut self, target: FigureTarget) -> Self {
        self.target = Some(target);
        self
    }

    fn is_reached(&self) -> Option<bool> {
        Some(match self.target? {
            FigureTarget::AtLeast(bound) => self.value >= bound,
            FigureTarget::AtMost(bound) => self.value <= bound,
        })
    }
}

/// Prints the figures: a table for people, or one JSON document.
pub(crate) fn print(figures: &[Figure], as_json: bool) -> Result<(), serde_json::Error> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(figures)?);
        return Ok(());
    }
    for figure in figures {
        let verdict = match (figure.target, figure.is_reached()) {
            (Some(FigureTarget::AtLeast(bound)), Some(ok)) => format!("≥ {} {}", short(bound), mark(ok)),
            (Some(FigureTarget::AtMost(bound)), Some(ok)) => format!("≤ {} {}", short(bound), mark(ok)),
            _ => String::new(),
        };
        println!("{:<44} {:>10} {:<10} {verdict}", figure.name, short(figure.value), figure.unit);
    }
    Ok(())
}

fn mark(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "MISSED" }
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
