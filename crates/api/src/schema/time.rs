//! Handles times as Kubernetes reads and writes them: RFC 3339 in, UTC out, with whole seconds or exactly six digits.

use jiff::Timestamp;

/// How precise a time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    /// Whole seconds; a fraction is accepted and dropped.
    Seconds,
    /// Microseconds; exactly six digits.
    Micros,
}

impl Precision {
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// The parts of a time before its fraction: Go's name for each, and the characters allowed there (`0` means a digit).
const PARTS: [(&str, &str); 11] = [
    ("2006", "0000"),
    ("-", "-"),
    ("01", "00"),
    ("-", "-"),
    ("02", "00"),
    ("T", "T"),
    ("15", "00"),
    (":", ":"),
    ("04", "00"),
    (":", ":"),
    ("05", "00"),
];

/// Returns the time in its canonical form; `None` if it already has that form.
pub(super) fn normal(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let rest = check_form(text, precision).map_err(|(rest, part)| {
        format!("parsing time {text:?} as {:?}: cannot parse {rest:?} as {part:?}", precision.layout())
    })?;
    let time: Timestamp = text.parse().map_err(|_| format!("parsing time {text:?}: out of range"))?;
    let is_normal =
        rest == "Z" && (precision == Precision::Micros || text.len() == "2006-01-02T15:04:05Z".len());
    if is_normal {
        return Ok(None);
    }
    Ok(Some(match precision {
        Precision::Seconds => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Precision::Micros => time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    }))
}

/// Checks the format; returns the zone, or the part that could not be parsed and its name.
fn check_form(text: &str, precision: Precision) -> Result<&str, (&str, &'static str)> {
    let mut rest = text;
    for (name, pattern) in PARTS {
        rest = strip_pattern(rest, pattern).ok_or((rest, name))?;
    }
    rest = match precision {
        Precision::Micros => strip_pattern(rest, ".000000").ok_or((rest, ".000000"))?,
        Precision::Seconds => match rest.strip_prefix(['.', ',']) {
            Some(fraction) => fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()),
            None => rest,
        },
    };
    let is_zone = rest == "Z" || strip_pattern(rest, "+00:00").or(strip_pattern(rest, "-00:00")) == Some("");
    if is_zone { Ok(rest) } else { Err((rest, "Z07:00")) }
}

/// Returns the text after a pattern.
fn strip_pattern<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    let fits = |(found, wanted): (u8, u8)| match wanted {
        b'0' => found.is_ascii_digit(),
        other => found == other,
    };
    let start = text.get(..pattern.len())?;
    start.bytes().zip(pattern.bytes()).all(fits).then(|| &text[pattern.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(precision: Precision, text: &str, expected: Result<&str, &str>) {
        let normal = normal(text, precision).map(|changed| changed.unwrap_or_else(|| text.into()));
        assert_eq!(normal.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn times_are_read_and_written_as_kubernetes_does() {
        use Precision::{Micros, Seconds};
        check(Seconds, "2020-01-01T00:00:00Z", Ok("2020-01-01T00:00:00Z"));
        check(Seconds, "2020-01-01T02:00:00.987+02:00", Ok("2020-01-01T00:00:00Z"));
        check(Micros, "2020-01-01T00:00:00.123456Z", Ok("2020-01-01T00:00:00.123456Z"));
        check(Micros, "2020-01-01T00:00:00.123456-01:30", Ok("2020-01-01T01:30:00.123456Z"));
        check(
            Micros,
            "2020-01-01T00:00:00Z",
            Err(
                r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
        );
        check(
            Seconds,
            "yesterday",
            Err(
                r#"parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#,
            ),
        );
        assert!(normal("2020-13-01T00:00:00Z", Seconds).is_err());
    }
}
