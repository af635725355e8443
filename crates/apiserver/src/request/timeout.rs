//! Checks the option `timeout`, which says how long the client waits for a response. Requests are ended by our own
//! limit, so this only refuses invalid values.

use homeostat_api::status::Status;

/// The units of Go's durations.
const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];

/// Refuses a timeout that is not a duration.
pub(crate) fn check_timeout(text: &str) -> Result<(), Status> {
    if text.is_empty() {
        return Ok(());
    }
    match duration_error(text) {
        None => Ok(()),
        Some(why) => {
            Err(Status::bad_request(format!("invalid timeout specified in the request URL - time: {why}")))
        }
    }
}

/// Returns Go's error for a string that is not a valid duration.
fn duration_error(text: &str) -> Option<String> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    let invalid = || Some(format!("invalid duration {text:?}"));
    if rest.is_empty() {
        return invalid();
    }
    while !rest.is_empty() {
        let whole = rest.trim_start_matches(|one: char| one.is_ascii_digit());
        let after = whole.strip_prefix('.').unwrap_or(whole);
        let after = after.trim_start_matches(|one: char| one.is_ascii_digit());
        let number = &rest[..rest.len() - after.len()];
        if !number.contains(|one: char| one.is_ascii_digit()) {
            return invalid();
        }
        let end = after.find(|one: char| one == '.' || one.is_ascii_digit()).unwrap_or(after.len());
        let (unit, more) = after.split_at(end);
        if unit.is_empty() {
            return Some(format!("missing unit in duration {text:?}"));
        }
        if !UNITS.contains(&unit) {
            return Some(format!("unknown unit {unit:?} in duration {text:?}"));
        }
        rest = more;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for good in ["", "0", "-0", "1s", "1h2m3.5s", "-1s", "+.5ms", "1.us", "10\u{b5}s"] {
            assert!(check_timeout(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("abc", "invalid duration \"abc\""),
            ("-", "invalid duration \"-\""),
            (".s", "invalid duration \".s\""),
            ("1", "missing unit in duration \"1\""),
            ("1.5", "missing unit in duration \"1.5\""),
            ("1d", "unknown unit \"d\" in duration \"1d\""),
            ("1s5", "missing unit in duration \"1s5\""),
        ] {
            let refusal = check_timeout(bad).expect_err(bad);
            let expected = format!("invalid timeout specified in the request URL - time: {why}");
            assert_eq!((refusal.code, refusal.message), (400, expected));
        }
    }
}
