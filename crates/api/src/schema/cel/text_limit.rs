//! Limits the text that calls produce, before they produce it.
//!
//! Kubernetes charges for the text that a call reads. Three functions produce far more than they read (`replace`
//! produces the product of two strings): without a limit, a rule could fill the memory at a low cost.

use cel::Value;
use kube_cel::cel;

use super::eval::{Evaluation, EvaluationFailure, error};

/// The number of text bytes that the calls of one evaluation may produce: more than an object may have, so that
/// rewriting an object stays possible.
pub(super) const TEXT_MADE_MAX: u64 = 4 * 1024 * 1024;

/// The maximum number of decimals that a format may request. A double has no more than 1 074.
const PRECISION_MAX: u64 = 1_100;

/// The maximum length of a number without decimals: the largest double has 309 digits.
const NUMBER_BYTES: u64 = 320;

impl Evaluation<'_> {
    /// Rejects a call that would produce too much text.
    pub(super) fn make_text(
        &mut self,
        function: &str,
        arguments: &[&Value],
    ) -> Result<(), EvaluationFailure> {
        let bytes = match (function, arguments) {
            ("replace", [Value::String(text), Value::String(from), Value::String(to), rest @ ..]) => {
                let limit = match rest {
                    [Value::Int(limit)] => usize::try_from(*limit).unwrap_or(0),
                    _ => usize::MAX,
                };
                let found = text.matches(from.as_str()).take(limit).count();
                bytes_of(text).saturating_add(count(found).saturating_mul(bytes_of(to)))
            }
            ("join", [Value::List(items), rest @ ..]) => {
                let between = match rest {
                    [Value::String(between)] => bytes_of(between),
                    _ => 0,
                };
                let own = items.iter().map(shown_bytes).fold(0, u64::saturating_add);
                own.saturating_add(count(items.len()).saturating_mul(between))
            }
            ("format", [Value::String(format), Value::List(items)]) => {
                let own = items.iter().map(shown_bytes).fold(0, u64::saturating_add);
                own.saturating_add(bytes_of(format)).saturating_add(decimals(format)?)
            }
            _ => return Ok(()),
        };
        self.text_made = self.text_made.saturating_add(bytes);
        if self.text_made > TEXT_MADE_MAX { Err(EvaluationFailure::Limit) } else { Ok(()) }
    }
}

/// Returns the maximum length of a value as a string; a byte takes two hexadecimal digits.
fn shown_bytes(value: &Value) -> u64 {
    let of_many = |values: &mut dyn Iterator<Item = &Value>| {
        values.map(|value| shown_bytes(value).saturating_add(2)).fold(2, u64::saturating_add)
    };
    match value {
        Value::String(text) => bytes_of(text).saturating_mul(2),
        Value::Bytes(bytes) => count(bytes.len()).saturating_mul(2),
        Value::List(items) => of_many(&mut items.iter()),
        Value::Map(map) => {
            let keys = map.map.keys().map(|key| count(key.to_string().len())).fold(0, u64::saturating_add);
            of_many(&mut map.map.values()).saturating_add(keys)
        }
        _ => NUMBER_BYTES,
    }
}

/// Returns the number of decimals that a format requests with `%.3f` or similar.
fn decimals(format: &str) -> Result<u64, EvaluationFailure> {
    let mut sum = 0_u64;
    for (_, rest) in format.match_indices("%.").map(|(at, _)| format.split_at(at + 2)) {
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        let asked = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u64::MAX) };
        if asked > PRECISION_MAX {
            return Err(error(format!("precision must not be greater than {PRECISION_MAX}")));
        }
        sum += asked;
    }
    Ok(sum)
}

fn bytes_of(text: &str) -> u64 {
    count(text.len())
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
