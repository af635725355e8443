//! Times as people read them: how long ago, and when.

use jiff::Timestamp;

/// Returns `4m ago`, or `in 30s` for a time in the future.
pub(crate) fn relative(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    match seconds {
        0 => "just now".to_owned(),
        1.. => format!("{} ago", short(seconds.unsigned_abs())),
        _ => format!("in {}", short(seconds.unsigned_abs())),
    }
}

/// Returns `4m ago, 12:03:01Z`; with the date if it was on a different day.
pub(crate) fn both(now: Timestamp, at: Timestamp) -> String {
    format!("{}, {}", relative(now, at), clock(now, at))
}

/// Returns the time from one moment to a later one: `25s`.
pub(crate) fn length(from: Timestamp, to: Timestamp) -> String {
    short(to.duration_since(from).as_secs().unsigned_abs())
}

/// Returns the time of day in UTC, with the date if it is on a different day.
pub(crate) fn clock(now: Timestamp, at: Timestamp) -> String {
    let text = format!("{at:.0}");
    let today = format!("{now:.0}");
    match (text.split_once('T'), today.split_once('T')) {
        (Some((day, time)), Some((today, _))) if day == today => time.to_owned(),
        _ => text,
    }
}

fn short(seconds: u64) -> String {
    let two = |large: u64, letter: char, rest: u64, small: char| match rest {
        0 => format!("{large}{letter}"),
        rest => format!("{large}{letter}{rest}{small}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..600 => two(seconds / 60, 'm', seconds % 60, 's'),
        600..3600 => format!("{}m", seconds / 60),
        3600..36_000 => two(seconds / 3600, 'h', seconds % 3600 / 60, 'm'),
        36_000..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let now: Timestamp = "2026-11-17T12:00:00Z".parse().expect("a time");
        let check = |at: &str, expected: &str| {
            assert_eq!(both(now, at.parse().expect("a time")), expected);
        };
        check("2026-11-17T12:00:00Z", "just now, 12:00:00Z");
        check("2026-11-17T11:59:30Z", "30s ago, 11:59:30Z");
        check("2026-11-17T11:57:55Z", "2m5s ago, 11:57:55Z");
        check("2026-11-17T12:00:30.4Z", "in 30s, 12:00:30Z");
        check("2026-11-15T11:00:00Z", "2d ago, 2026-11-15T11:00:00Z");
    }
}
