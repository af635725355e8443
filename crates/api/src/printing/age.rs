//! Prints durations for people: at most two units, coarser for longer durations.

use crate::object::read;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Years have 365 days, as everywhere in Kubernetes.
const YEAR: i64 = 365 * DAY;

/// Returns how long ago the object was created.
pub(crate) fn age_of_object(object: &Value, now: Timestamp) -> String {
    format_age_since(read::time_at(object, "metadata.creationTimestamp"), now)
}

/// Returns how long ago `time` was.
pub(crate) fn format_age_since(time: Option<Timestamp>, now: Timestamp) -> String {
    time.map_or_else(|| "<unknown>".to_owned(), |time| format_duration(now.duration_since(time)))
}

/// Returns a duration in the largest units that matter.
pub(crate) fn format_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => print_two_units(seconds, (MINUTE, 'm'), (1, 's')),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => print_two_units(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => print_two_units(seconds, (DAY, 'd'), (HOUR, 'h')),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => print_two_units(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Prints two units; the second is left out if it is zero.
fn print_two_units(
    seconds: i64,
    (large, large_unit): (i64, char),
    (small, small_unit): (i64, char),
) -> String {
    let rest = seconds % large / small;
    if rest == 0 {
        format!("{}{large_unit}", seconds / large)
    } else {
        format!("{}{large_unit}{rest}{small_unit}", seconds / large)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_as_kubernetes_does() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (9 * MINUTE + 59, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 5 * MINUTE, "7h5m"),
            (47 * HOUR, "47h"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR + DAY, "2y1d"),
            (26 * YEAR, "26y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(format_duration(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
        assert_eq!(format_age_since(None, Timestamp::UNIX_EPOCH), "<unknown>");
    }
}
