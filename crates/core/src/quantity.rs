//! Parses and prints quantities as Kubernetes writes them: `500m`, `1.5Gi`, `1e9`. This is the workspace's only
//! quantity parser.
//!
//! An amount is a whole number of billionths. Finer parts are rounded up, away from zero, and larger amounts are capped
//! at 2^63, as in Kubernetes. `Display` writes the canonical form, which is the form that the API stores: `0.5` becomes
//! `500m`, `1024Ki` becomes `1Mi`.

use std::fmt;
use std::str::FromStr;

/// The number of billionths in one unit.
const ONE: i128 = 1_000_000_000;
/// The largest amount.
const AMOUNT_MAX: i128 = i64::MAX as i128 * ONE;
/// Units of powers of 1000, from billionths up.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Units of powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The reason a string is not a quantity, with Kubernetes' wording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.message())]
pub enum QuantityError {
    /// It does not look like a quantity.
    Format,
    /// The unit is unknown.
    Suffix,
}

impl QuantityError {
    /// Returns the message.
    pub fn message(self) -> &'static str {
        match self {
            Self::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Suffix => "unable to parse quantity's suffix",
        }
    }
}

/// The family of units a quantity was given in. `Display` uses the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitFamily {
    Decimal,
    Exponent,
    Binary,
}

/// An amount with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantity {
    nanos: i128,
    units: UnitFamily,
}

impl Quantity {
    /// Returns the amount in billionths.
    pub fn nanos(self) -> i128 {
        self.nanos
    }

    /// Returns the amount in whole units, rounded up.
    pub fn wholes(self) -> i128 {
        div_ceil(self.nanos, ONE)
    }

    /// Returns a positive amount in whole units, rounded up: a number of bytes or of objects.
    pub fn positive_wholes(self) -> Option<u64> {
        u64::try_from(self.wholes()).ok().filter(|wholes| *wholes > 0)
    }

    /// Returns the amount divided by `divisor`, rounded up.
    pub fn in_units_of(self, divisor: Self) -> Option<i128> {
        (divisor.nanos > 0).then(|| div_ceil(self.nanos, divisor.nanos))
    }

    /// Returns the sum, in the units of this amount, or of the other one if this is zero.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let units = if self.nanos == 0 { other.units } else { self.units };
        Self { nanos: self.nanos.saturating_add(other.nanos).clamp(-AMOUNT_MAX, AMOUNT_MAX), units }
    }

    /// Returns the difference, in the units of this amount, or of the other one if this is zero.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.plus(Self { nanos: -other.nanos, units: other.units })
    }

    /// Returns whether the amount, rounded up to thousandths, is not a whole number.
    pub fn is_fractional(self) -> bool {
        const NANOS_PER_MILLI: i128 = 1_000_000;
        div_ceil(self.nanos, NANOS_PER_MILLI).rem_euclid(1000) != 0
    }
}

impl From<u64> for Quantity {
    fn from(wholes: u64) -> Self {
        Self { nanos: (i128::from(wholes) * ONE).min(AMOUNT_MAX), units: UnitFamily::Decimal }
    }
}

/// Parses a quantity and returns its amount in billionths.
pub fn parse_nanos(text: &str) -> Option<i128> {
    text.parse().ok().map(Quantity::nanos)
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end =
            unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
        let (number, unit) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(QuantityError::Format);
        }
        let (units, base, power) = parse_unit(unit)?;
        let digits = whole.bytes().chain(fraction.bytes());
        let digits =
            digits.fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
        let places = i32::try_from(fraction.len()).map_err(|_| QuantityError::Format)?;
        let amount = match base {
            2 => scale(digits.saturating_mul(1 << power), 9 - places),
            _ => scale(digits, power.saturating_add(9 - places)),
        };
        let amount = amount.min(AMOUNT_MAX);
        Ok(Self { nanos: if text.starts_with('-') { -amount } else { amount }, units })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.units {
            _ if self.nanos == 0 => f.write_str("0"),
            UnitFamily::Binary if self.nanos.abs() >= 1024 * ONE && self.nanos % ONE == 0 => {
                let (number, at) = reduce(self.nanos / ONE, 1024, BINARY.len() - 1);
                write!(f, "{number}{}", BINARY[at])
            }
            UnitFamily::Binary | UnitFamily::Decimal => {
                let (number, at) = reduce(self.nanos, 1000, DECIMAL.len() - 1);
                write!(f, "{number}{}", DECIMAL[at])
            }
            UnitFamily::Exponent => {
                let (number, at) = reduce(self.nanos, 1000, usize::MAX);
                let power = 3 * i64::try_from(at).unwrap_or_default() - 9;
                if power == 0 { write!(f, "{number}") } else { write!(f, "{number}e{power}") }
            }
        }
    }
}

/// Returns the family, base and power of a unit.
fn parse_unit(unit: &str) -> Result<(UnitFamily, i32, i32), QuantityError> {
    let place =
        |units: &[&str]| units.iter().position(|one| *one == unit).and_then(|at| i32::try_from(at).ok());
    if let Some(at) = place(&DECIMAL) {
        return Ok((UnitFamily::Decimal, 10, 3 * at - 9));
    }
    if let Some(at) = place(&BINARY) {
        return Ok((UnitFamily::Binary, 2, 10 * at));
    }
    let is_known = |letter: char| "eEinumkKMGTP+-".contains(letter) || letter.is_ascii_digit();
    if !unit.chars().all(is_known) {
        return Err(QuantityError::Format);
    }
    let exponent = unit.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok());
    exponent.map(|power| (UnitFamily::Exponent, 10, power)).ok_or(QuantityError::Suffix)
}

/// Returns `number` times ten to the `power`, rounded up.
fn scale(number: i128, power: i32) -> i128 {
    let factor = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
    if power >= 0 {
        number.saturating_mul(factor)
    } else {
        number / factor + i128::from(number % factor != 0)
    }
}

fn div_ceil(number: i128, divisor: i128) -> i128 {
    number.div_euclid(divisor) + i128::from(number.rem_euclid(divisor) > 0)
}

/// Divides by the factor as long as there is no remainder, at most `times_max` times.
fn reduce(mut number: i128, factor: i128, times_max: usize) -> (i128, usize) {
    let mut times = 0;
    while number % factor == 0 && times < times_max {
        number /= factor;
        times += 1;
    }
    (number, times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        let rows = [
            ("1", Some(ONE)),
            ("500m", Some(ONE / 2)),
            ("0.5", Some(ONE / 2)),
            ("250m", Some(ONE / 4)),
            ("1.5Gi", Some((ONE * 3) << 29)),
            ("1024Ki", Some(ONE << 20)),
            ("1e9", Some(ONE * ONE)),
            ("2E", Some(ONE * 2_000_000_000_000_000_000)),
            ("-1", Some(-ONE)),
            ("0.0000000001", Some(1)),
            ("", None),
            ("x", None),
            ("1.2.3", None),
            ("1Zi", None),
            ("1e2147483647", Some(AMOUNT_MAX)),
            ("1e-2147483648", Some(1)),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_nanos(text), expected, "{text}");
        }
    }

    #[test]
    fn quantities_are_written_canonically() {
        let rows = [
            ("0.5", "500m"),
            ("1024Ki", "1Mi"),
            ("1500m", "1500m"),
            ("1.5Gi", "1536Mi"),
            ("2000M", "2G"),
            ("1", "1"),
            ("2", "2"),
            ("1e9", "1e9"),
            ("1000e6", "1e9"),
            ("100", "100"),
            ("1000", "1k"),
            ("0", "0"),
            ("0Gi", "0"),
            ("512", "512"),
            ("0.1Ki", "102400m"),
            ("-5", "-5"),
            ("0.1n", "1n"),
            ("1Ei", "1Ei"),
            ("12e-1", "1200e-3"),
        ];
        for (given, written) in rows {
            assert_eq!(given.parse::<Quantity>().unwrap().to_string(), written, "{given}");
        }
        for bad in ["", "x", "1.2.3", "1 Gi", "--1"] {
            assert_eq!(bad.parse::<Quantity>(), Err(QuantityError::Format), "{bad}");
        }
        assert_eq!("1nn".parse::<Quantity>(), Err(QuantityError::Suffix));
    }

    #[test]
    fn wholes_and_fractions() {
        for (text, wholes, is_fractional) in [
            ("1", 1, false),
            ("1k", 1000, false),
            ("1500m", 2, true),
            ("0.0001m", 1, true),
            ("-1500m", -1, true),
            ("0", 0, false),
        ] {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!((quantity.wholes(), quantity.is_fractional()), (wholes, is_fractional), "{text}");
            assert_eq!(quantity.positive_wholes(), u64::try_from(wholes).ok().filter(|wholes| *wholes > 0));
        }
    }

    #[test]
    fn amounts_are_counted_in_units() {
        for (amount, divisor, expected) in
            [("64Mi", "1Mi", Some(64)), ("250m", "1", Some(1)), ("2", "1m", Some(2000)), ("1", "0", None)]
        {
            let quantity = |text: &str| text.parse::<Quantity>().unwrap();
            assert_eq!(quantity(amount).in_units_of(quantity(divisor)), expected, "{amount} / {divisor}");
        }
        assert_eq!(Quantity::from(3).to_string(), "3");
    }
}
