//! Amounts with units: `500m`, `1.5Gi`, `1e9`. Enough to compare two of them exactly.
//!
//! An amount is a whole number of billionths; what is finer is rounded up, as Kubernetes does. Writing amounts in
//! their canonical form is not done here.

/// Digits beyond this cannot matter: the largest unit is 2^60 and numbers are limited to 2^63.
const DIGITS_MAX: usize = 36;

/// The amount in billionths; `None`: not a quantity.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let digits_end =
        rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
    let (number, unit) = rest.split_at(digits_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0
        || whole.len() + fraction.len() > DIGITS_MAX
        || fraction.contains('.')
    {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
    let (numerator, exponent) = multiplier(unit)?;
    let exponent = exponent.saturating_add(9 - i32::try_from(fraction.len()).ok()?);
    Some(sign * scaled(digits.checked_mul(numerator)?, exponent)?)
}

/// Is it, rounded up to thousandths, no whole number?
pub(crate) fn is_fractional(text: &str) -> bool {
    const NANO_PER_MILLI: i128 = 1_000_000;
    let milli = parse(text)
        .map(|nano| nano.div_euclid(NANO_PER_MILLI) + i128::from(nano.rem_euclid(NANO_PER_MILLI) > 0));
    milli.is_some_and(|milli| milli.rem_euclid(1000) != 0)
}

/// A unit as a factor and a power of ten.
fn multiplier(unit: &str) -> Option<(i128, i32)> {
    let decimal = |exponent| Some((1, exponent));
    match unit {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => Some((1 << 10, 0)),
        "Mi" => Some((1 << 20, 0)),
        "Gi" => Some((1 << 30, 0)),
        "Ti" => Some((1 << 40, 0)),
        "Pi" => Some((1 << 50, 0)),
        "Ei" => Some((1 << 60, 0)),
        _ => decimal(unit.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    }
}

/// `number` times ten to the `exponent`, rounded up.
fn scaled(number: i128, exponent: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(exponent.unsigned_abs());
    if exponent >= 0 {
        return number.checked_mul(power?);
    }
    Some(
        power.map_or(i128::from(number > 0), |power| {
            number.div_euclid(power) + i128::from(number % power != 0)
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NANO: i128 = 1_000_000_000;

    #[test]
    fn quantities_are_exact() {
        let rows = [
            ("1", Some(NANO)),
            ("500m", Some(NANO / 2)),
            ("0.5", Some(NANO / 2)),
            ("1.5Gi", Some((NANO * 3) << 29)),
            ("1024Ki", Some(NANO << 20)),
            ("1e9", Some(NANO * NANO)),
            ("2E", Some(NANO * 2_000_000_000_000_000_000)),
            ("-1", Some(-NANO)),
            ("0.0000000001", Some(1)),
            ("", None),
            ("x", None),
            ("1.2.3", None),
            ("1Zi", None),
            ("1e2147483647", None),
            ("1e-2147483648", Some(1)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
