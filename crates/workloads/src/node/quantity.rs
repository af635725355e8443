//! Quantities as numbers: `100m`, `64Mi`, `2`, `1e3`.

/// The value, or none if it is not a quantity.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let split = text.find(|letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | '+' | '-')));
    let (number, suffix) = text.split_at(split.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    Some(number * scale(suffix)?)
}

fn scale(suffix: &str) -> Option<f64> {
    const KIBI: f64 = 1024.0;
    Some(match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => KIBI,
        "Mi" => KIBI.powi(2),
        "Gi" => KIBI.powi(3),
        "Ti" => KIBI.powi(4),
        "Pi" => KIBI.powi(5),
        "Ei" => KIBI.powi(6),
        exponent => 10f64.powi(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// A size in whole bytes.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive and far below 2^63"
)]
pub(crate) fn bytes(text: &str) -> Option<u64> {
    parse(text).filter(|bytes| *bytes > 0.0).map(|bytes| bytes.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_numbers() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(parse(text), expected, "{text}");
        check("2", Some(2.0));
        check("250m", Some(0.25));
        check("64Mi", Some(64.0 * 1024.0 * 1024.0));
        check("1e3", Some(1000.0));
        check("1E", Some(1e18));
        check("1.5Gi", Some(1.5 * 1024.0 * 1024.0 * 1024.0));
        check("x", None);
        check("", None);
        assert_eq!(bytes("1k"), Some(1000));
    }
}
