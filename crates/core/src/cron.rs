//! Parses cron schedules: five fields with their names and shorthands, in a time zone. This is the workspace's only
//! cron parser.
//!
//! If both the day of the month and the day of the week are restricted, it is enough that either matches; otherwise
//! both must match. Local times skipped by a clock change do not occur; repeated ones occur twice. Messages use
//! Kubernetes' wording.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, time};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// The number of days to search for a match: a leap day comes at least every eight years.
const DAYS_MAX: usize = 8 * 366;
/// The longest duration that Go can represent, 292 years: it counts nanoseconds in 63 bits.
const DURATION_SECONDS_MAX: f64 = 9_223_372_036.0;

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When something should happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// At these calendar times.
    Calendar(CalendarSchedule),
    /// Repeatedly, with this period.
    Every(Duration),
}

/// The times of a calendar schedule, one set of numbers per field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalendarSchedule {
    minutes: FieldBits,
    hours: FieldBits,
    days: FieldBits,
    months: FieldBits,
    weekdays: FieldBits,
}

/// The numbers of a field, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FieldBits {
    bits: u64,
    /// Whether it was written as `*` or `?`, without a step.
    is_any: bool,
}

impl FieldBits {
    fn contains(self, number: i8) -> bool {
        self.bits & (1 << number) != 0
    }
}

/// The bounds and names of a field.
struct FieldGrammar {
    first: u32,
    last: u32,
    /// The names of its values; the first one stands for `first`.
    names: &'static [&'static str],
}

/// Minutes, hours, days, months and weekdays.
const FIELDS: [FieldGrammar; 5] = [
    FieldGrammar { first: 0, last: 59, names: &[] },
    FieldGrammar { first: 0, last: 23, names: &[] },
    FieldGrammar { first: 1, last: 31, names: &[] },
    FieldGrammar { first: 1, last: 12, names: MONTHS },
    FieldGrammar { first: 0, last: 6, names: WEEKDAYS },
];

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text if text.starts_with('@') => return parse_period(text),
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        Ok(Self::Calendar(CalendarSchedule {
            minutes: parse_field(minutes, &FIELDS[0])?,
            hours: parse_field(hours, &FIELDS[1])?,
            days: parse_field(days, &FIELDS[2])?,
            months: parse_field(months, &FIELDS[3])?,
            weekdays: parse_field(weekdays, &FIELDS[4])?,
        }))
    }
}

impl Schedule {
    /// Returns the first time after `after`, if there is one.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(period) => {
                let next = after.checked_add(*period).ok()?;
                Timestamp::from_second(next.as_second()).ok()
            }
            Self::Calendar(calendar) => {
                let first = zone.to_datetime(after).date();
                // Start with the day before: a clock change at midnight can bring it back.
                let first = first.yesterday().unwrap_or(first);
                let days = first.series(jiff::Span::new().days(1)).take(DAYS_MAX);
                let mut days = days.filter(|day| calendar.contains_day(*day));
                days.find_map(|day| calendar.first_time_on(day, after, zone))
            }
        }
    }
}

impl CalendarSchedule {
    fn contains_day(&self, day: Date) -> bool {
        let weekday = self.weekdays.contains(day.weekday().to_sunday_zero_offset());
        let day_of_month = self.days.contains(day.day());
        let is_day = if self.days.is_any || self.weekdays.is_any {
            weekday && day_of_month
        } else {
            weekday || day_of_month
        };
        self.months.contains(day.month()) && is_day
    }

    /// Returns the first time of this day after `after`.
    fn first_time_on(&self, day: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let hours = (0..24).filter(|hour| self.hours.contains(*hour));
        let times = hours.flat_map(|hour| {
            (0..60)
                .filter(|minute| self.minutes.contains(*minute))
                .map(move |minute| time(hour, minute, 0, 0))
        });
        let moments = times.flat_map(|time| {
            let local = day.to_datetime(time);
            let offsets = match zone.to_ambiguous_timestamp(local).offset() {
                AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
                AmbiguousOffset::Gap { .. } => [None, None],
                AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
            };
            offsets.into_iter().flatten().filter_map(move |offset| offset.to_timestamp(local).ok())
        });
        moments.filter(|moment| *moment > after).min()
    }
}

/// Parses `@every` and a duration.
fn parse_period(text: &str) -> Result<Schedule, String> {
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    let period = parse_go_duration(duration)
        .ok_or_else(|| format!("failed to parse duration {text}: time: invalid duration {duration:?}"))?;
    Ok(Schedule::Every(period.max(Duration::from_secs(1))))
}

/// Parses a list of ranges: `*`, `1`, `1-5`, `*/2`, `10-50/20`, `mon-fri`.
fn parse_field(text: &str, grammar: &FieldGrammar) -> Result<FieldBits, String> {
    let mut all = FieldBits { bits: 0, is_any: false };
    for part in text.split(',') {
        let range = parse_range(part, grammar)?;
        all.bits |= range.bits;
        all.is_any |= range.is_any;
    }
    Ok(all)
}

fn parse_range(text: &str, grammar: &FieldGrammar) -> Result<FieldBits, String> {
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    let is_any = matches!(range, "*" | "?");
    let (first, last) = match range.split_once('-') {
        _ if is_any => (grammar.first, grammar.last),
        Some((first, last)) => (parse_number(first, grammar)?, parse_number(last, grammar)?),
        None => {
            let first = parse_number(range, grammar)?;
            // `5/10` means from 5 up to the maximum.
            (first, if step.is_some() { grammar.last } else { first })
        }
    };
    let step = match step {
        None => 1,
        Some(step) => step.parse::<u32>().map_err(|_| format!("failed to parse int from {step}"))?,
    };
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    if first < grammar.first {
        return Err(format!("beginning of range ({first}) below minimum ({}): {text}", grammar.first));
    }
    if last > grammar.last {
        return Err(format!("end of range ({last}) above maximum ({}): {text}", grammar.last));
    }
    if first > last {
        return Err(format!("beginning of range ({first}) beyond end of range ({last}): {text}"));
    }
    let numbers = (first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let bits = numbers.fold(0, |bits, number| bits | (1 << number));
    // A step makes the field a restriction.
    Ok(FieldBits { bits, is_any: is_any && step == 1 })
}

/// Parses a number or its name.
fn parse_number(text: &str, grammar: &FieldGrammar) -> Result<u32, String> {
    let place = grammar.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    if let Some(place) = place.and_then(|place| u32::try_from(place).ok()) {
        return Ok(grammar.first + place);
    }
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

/// Parses a duration as Go writes it: `1h30m`, `90s`, `1.5h`, `100ns`. A negative one counts as zero.
fn parse_go_duration(text: &str) -> Option<Duration> {
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let (number, after) = rest.split_at(rest.find(|letter| !is_number(letter))?);
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        seconds += number.parse::<f64>().ok()? * unit_seconds(unit)?;
        rest = after;
    }
    if seconds > DURATION_SECONDS_MAX {
        return None;
    }
    if is_negative { Some(Duration::ZERO) } else { Duration::try_from_secs_f64(seconds).ok() }
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        // Two letters that look alike: the micro sign and the Greek mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Central European and New York time, in POSIX notation: tests must not depend on installed zones.
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
    const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";
    const UTC: &str = "UTC0";

    #[track_caller]
    fn check(schedule: &str, zone: &str, after: &str, expected: &[&str]) {
        let schedule: Schedule = schedule.parse().unwrap();
        let zone = TimeZone::posix(zone).unwrap();
        let mut at: Timestamp = after.parse().expect("a time");
        for moment in expected {
            at = schedule.next(at, &zone).expect("a next time");
            assert_eq!(at.to_string(), *moment);
        }
    }

    #[test]
    fn the_next_time() {
        check("*/15 * * * *", UTC, "2026-03-01T10:07:30Z", &["2026-03-01T10:15:00Z", "2026-03-01T10:30:00Z"]);
        check(
            "0 9-17/4 * * MON-FRI",
            UTC,
            "2026-02-27T13:00:00Z",
            &["2026-02-27T17:00:00Z", "2026-03-02T09:00:00Z"],
        );
        check(
            "30 4 1,15 * 5",
            UTC,
            "2026-05-30T00:00:00Z",
            &["2026-06-01T04:30:00Z", "2026-06-05T04:30:00Z"],
        );
        check("0 0 29 feb *", UTC, "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z"]);
        check("@daily", UTC, "2026-12-31T00:00:00Z", &["2027-01-01T00:00:00Z"]);
        check("@every 1h30m", UTC, "2026-01-01T00:00:00.7Z", &["2026-01-01T01:30:00Z"]);
        for brief in ["@every 1ns", "@every -1h", "@every 0", "@every 500ms", "@every 1\u{b5}s", "@every .5s"]
        {
            check(brief, UTC, "2026-01-01T00:00:00Z", &["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"]);
        }
        check("59 23 31 12 *", UTC, "2026-12-31T23:59:00Z", &["2027-12-31T23:59:00Z"]);
    }

    #[test]
    fn clock_changes() {
        // 02:30 does not exist on 2026-03-29 in Berlin.
        check(
            "30 2 * * *",
            BERLIN,
            "2026-03-28T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"],
        );
        // 02:30 occurs twice on 2026-10-25.
        check(
            "30 2 * * *",
            BERLIN,
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"],
        );
        check("0 8 * * *", NEW_YORK, "2026-07-01T00:00:00Z", &["2026-07-01T12:00:00Z"]);
    }

    #[test]
    fn schedules_that_never_match_have_no_next_time() {
        let schedule: Schedule = "0 0 31 2 *".parse().unwrap();
        assert_eq!(schedule.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC), None);
    }

    #[test]
    fn schedules_parse_as_in_kubernetes() {
        for good in [
            "*/5 * * * *",
            "0 0 1 jan mon-fri",
            "1-5/2,10 0 ? * *",
            "@hourly",
            "@every 1h30m",
            "@every 1ns",
            "@every -1.5h",
            "@every 0",
            "@every .5s",
            "59 23 31 12 6",
        ] {
            assert!(good.parse::<Schedule>().is_ok(), "{good}");
        }
        let bad = [
            ("", "expected exactly 5 fields, found 0: []"),
            ("not a schedule", "expected exactly 5 fields, found 3: [not a schedule]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("@every ", "failed to parse duration @every : time: invalid duration \"\""),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("@every 1d", "failed to parse duration @every 1d: time: invalid duration \"1d\""),
            ("@every 1hs", "failed to parse duration @every 1hs: time: invalid duration \"1hs\""),
            ("@every 5", "failed to parse duration @every 5: time: invalid duration \"5\""),
            ("@often", "unrecognized descriptor: @often"),
        ];
        for (schedule, expected) in bad {
            assert_eq!(schedule.parse::<Schedule>().unwrap_err(), expected, "{schedule}");
        }
    }
}
