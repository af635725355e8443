//! Quantities as Kubernetes writes them: `0.5` is stored as `500m`, `1024Ki` as `1Mi`.
//!
//! An amount is a whole number of billionths: finer parts are rounded up and nothing exceeds 2^63, as there.

/// Billionths in one.
const ONE: i128 = 1_000_000_000;
/// The largest amount.
const AMOUNT_MAX: i128 = i64::MAX as i128 * ONE;
/// Units of powers of 1000, from billionths up.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// Units of powers of 1024.
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

const FORMAT_TEXT: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_TEXT: &str = "unable to parse quantity's suffix";

/// The family of units a quantity was given in; it is written in the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Units {
    Decimal,
    Exponent,
    Binary,
}

/// The canonical text of a quantity.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    let (amount, units) = parse(text)?;
    Ok(write(amount, units))
}

fn parse(text: &str) -> Result<(i128, Units), &'static str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end =
        unsigned.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(FORMAT_TEXT);
    }
    let (units, base, power) = unit_of(unit)?;
    let digits = whole.bytes().chain(fraction.bytes());
    let digits =
        digits.fold(0_i128, |sum, digit| sum.saturating_mul(10).saturating_add(i128::from(digit - b'0')));
    let places = i32::try_from(fraction.len()).map_err(|_| FORMAT_TEXT)?;
    let amount = match base {
        2 => scale(digits.saturating_mul(1 << power), 9 - places),
        _ => scale(digits, power.saturating_add(9 - places)),
    };
    let amount = amount.min(AMOUNT_MAX);
    Ok((if text.starts_with('-') { -amount } else { amount }, units))
}

/// The family, base and power of a unit.
fn unit_of(unit: &str) -> Result<(Units, i32, i32), &'static str> {
    let place =
        |units: &[&str]| units.iter().position(|one| *one == unit).and_then(|at| i32::try_from(at).ok());
    if let Some(at) = place(&DECIMAL) {
        return Ok((Units::Decimal, 10, 3 * at - 9));
    }
    if let Some(at) = place(&BINARY) {
        return Ok((Units::Binary, 2, 10 * at));
    }
    let is_known = |letter: char| "eEinumkKMGTP+-".contains(letter) || letter.is_ascii_digit();
    if !unit.chars().all(is_known) {
        return Err(FORMAT_TEXT);
    }
    let exponent = unit.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i32>().ok());
    exponent.map(|power| (Units::Exponent, 10, power)).ok_or(SUFFIX_TEXT)
}

/// `number` times ten to the `power`, rounded up.
fn scale(number: i128, power: i32) -> i128 {
    let factor = 10_i128.checked_pow(power.unsigned_abs()).unwrap_or(i128::MAX);
    if power >= 0 {
        number.saturating_mul(factor)
    } else {
        number / factor + i128::from(number % factor != 0)
    }
}

fn write(amount: i128, units: Units) -> String {
    match units {
        _ if amount == 0 => "0".into(),
        Units::Binary if amount.abs() >= 1024 * ONE && amount % ONE == 0 => {
            let (number, at) = reduce(amount / ONE, 1024, BINARY.len() - 1);
            format!("{number}{}", BINARY[at])
        }
        Units::Binary | Units::Decimal => {
            let (number, at) = reduce(amount, 1000, DECIMAL.len() - 1);
            format!("{number}{}", DECIMAL[at])
        }
        Units::Exponent => exponent(amount),
    }
}

fn exponent(amount: i128) -> String {
    let (number, at) = reduce(amount, 1000, usize::MAX);
    let power = 3 * i64::try_from(at).unwrap_or_default() - 9;
    if power == 0 { number.to_string() } else { format!("{number}e{power}") }
}

/// Takes out the factor as often as it goes.
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
            assert_eq!(canonical(given).as_deref(), Ok(written), "{given}");
        }
        for bad in ["", "x", "1.2.3", "1 Gi", "--1"] {
            assert_eq!(canonical(bad), Err(FORMAT_TEXT), "{bad}");
        }
        assert_eq!(canonical("1nn"), Err(SUFFIX_TEXT));
    }
}
