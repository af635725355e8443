//! Converts numbers in the API's notation: counts that are omitted when zero, and values that are a number or a
//! percentage.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Converts a count of values in memory, which always fits.
pub(crate) fn as_count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// Returns `None` for zero.
pub(crate) fn omit_zero(number: i32) -> Option<i32> {
    (number != 0).then_some(number)
}

/// Converts to `usize`; a negative number becomes zero.
pub(crate) fn as_usize(number: i32) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// The direction in which a fractional percentage is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Up,
    Down,
}

/// Resolves a number or a percentage of `total`. A value that the server should have refused counts as zero.
pub(crate) fn resolve_percentage(value: Option<&IntOrString>, total: i32, rounding: Rounding) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok());
            let hundredfold = percent.unwrap_or_default() * i64::from(total);
            let exact = match rounding {
                Rounding::Up => (hundredfold + 99) / 100,
                Rounding::Down => hundredfold / 100,
            };
            i32::try_from(exact).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, total: i32, up: i32, down: i32) {
        let value = value.parse().map_or_else(|_| IntOrString::String(value.into()), IntOrString::Int);
        let resolved = |rounding| resolve_percentage(Some(&value), total, rounding);
        assert_eq!((resolved(Rounding::Up), resolved(Rounding::Down)), (up, down), "{value:?} of {total}");
    }

    #[test]
    fn shares() {
        check("3", 10, 3, 3);
        check("25%", 4, 1, 1);
        check("25%", 3, 1, 0);
        check("25%", 10, 3, 2);
        check("100%", 7, 7, 7);
        check("0%", 7, 0, 0);
    }
}
