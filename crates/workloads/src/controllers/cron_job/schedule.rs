//! Schedules: the five fields of cron, their names and shorthands, in a time zone. Pure.
//!
//! When both the day of the month and the day of the week are restricted, either suffices; otherwise both must match.
//! Local times that a clock change skips do not happen; those it repeats happen twice.

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, time};
use jiff::tz::{AmbiguousOffset, TimeZone};

/// A schedule that has no match within this many days has none: a leap day comes at least every eight years.
const DAYS_MAX: usize = 8 * 366;

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When things happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Schedule {
    /// At these times of the calendar.
    Calendar(Calendar),
    /// Again and again.
    Every(Duration),
}

/// One set of numbers per field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Calendar {
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
    /// It was written as `*` or `?`, perhaps with a step.
    is_any: bool,
}

impl FieldBits {
    fn has(self, number: i8) -> bool {
        self.bits & (1 << number) != 0
    }
}

/// The bounds and names of a field.
struct FieldGrammar {
    first: u32,
    last: u32,
    /// The name at place 0 stands for `first`.
    names: &'static [&'static str],
}

impl Schedule {
    /// Reads a schedule.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Some(duration) = text.strip_prefix("@every ") {
            let duration =
                parse_go_duration(duration).ok_or_else(|| format!("failed to parse duration {text}"))?;
            return Ok(Self::Every(duration.max(Duration::from_secs(1))));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text if text.starts_with('@') => return Err(format!("unrecognized descriptor: {text}")),
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: {text}", fields.len()));
        };
        Ok(Self::Calendar(Calendar {
            minutes: parse_field(minutes, &FieldGrammar { first: 0, last: 59, names: &[] })?,
            hours: parse_field(hours, &FieldGrammar { first: 0, last: 23, names: &[] })?,
            days: parse_field(days, &FieldGrammar { first: 1, last: 31, names: &[] })?,
            months: parse_field(months, &FieldGrammar { first: 1, last: 12, names: MONTHS })?,
            weekdays: parse_field(weekdays, &FieldGrammar { first: 0, last: 6, names: WEEKDAYS })?,
        }))
    }

    /// The first time after `after`; none if there is none.
    pub(super) fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Every(period) => {
                let next = after.checked_add(*period).ok()?;
                Timestamp::from_second(next.as_second()).ok()
            }
            Self::Calendar(calendar) => {
                let first = zone.to_datetime(after).date();
                // The day before as well: a clock change at midnight can bring it back.
                let first = first.yesterday().unwrap_or(first);
                let days = first.series(jiff::Span::new().days(1)).take(DAYS_MAX);
                let mut days = days.filter(|day| calendar.has_day(*day));
                days.find_map(|day| calendar.first_time_on(day, after, zone))
            }
        }
    }
}

impl Calendar {
    fn has_day(&self, day: Date) -> bool {
        let weekday = self.weekdays.has(day.weekday().to_sunday_zero_offset());
        let day_of_month = self.days.has(day.day());
        let is_day = if self.days.is_any || self.weekdays.is_any {
            weekday && day_of_month
        } else {
            weekday || day_of_month
        };
        self.months.has(day.month()) && is_day
    }

    /// The first time of this day after `after`.
    fn first_time_on(&self, day: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let hours = (0..24).filter(|hour| self.hours.has(*hour));
        let times = hours.flat_map(|hour| {
            (0..60).filter(|minute| self.minutes.has(*minute)).map(move |minute| time(hour, minute, 0, 0))
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

/// A list of ranges: `*`, `1`, `1-5`, `*/2`, `10-50/20`, `mon-fri`.
fn parse_field(text: &str, grammar: &FieldGrammar) -> Result<FieldBits, String> {
    let mut all = FieldBits { bits: 0, is_any: false };
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(parse_number(step)?)),
            None => (part, None),
        };
        let is_any = matches!(range, "*" | "?");
        let (first, last) = match range.split_once('-') {
            _ if is_any => (grammar.first, grammar.last),
            Some((first, last)) => (parse_name(first, grammar)?, parse_name(last, grammar)?),
            None => {
                let first = parse_name(range, grammar)?;
                // `5/10` means from 5 to the end.
                (first, if step.is_some() { grammar.last } else { first })
            }
        };
        if first < grammar.first || last > grammar.last || first > last {
            return Err(format!("{part} is not within {} to {}", grammar.first, grammar.last));
        }
        let step = step.unwrap_or(1);
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}"));
        }
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        all.bits |= (first..=last).step_by(step).fold(0, |bits, number| bits | (1 << number));
        // A step of its own makes the field a restriction.
        all.is_any |= is_any && step == 1;
    }
    if all.bits == 0 { Err(format!("empty field: {text:?}")) } else { Ok(all) }
}

fn parse_name(text: &str, grammar: &FieldGrammar) -> Result<u32, String> {
    let place = grammar.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    match place.and_then(|place| u32::try_from(place).ok()) {
        Some(place) => Ok(grammar.first + place),
        None => parse_number(text),
    }
}

fn parse_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("failed to parse int from {text:?}"))
}

/// A duration as Go writes it: `1h30m`, `90s`, `1.5h`, `100ns`. One below zero is none. What the server accepts as a schedule
/// is read here: the grammar is that of its validation.
fn parse_go_duration(text: &str) -> Option<Duration> {
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters =
            rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
        total =
            total.checked_add(Duration::try_from_secs_f64(amount * unit_seconds(&rest[..letters])?).ok()?)?;
        rest = &rest[letters..];
    }
    Some(if is_negative { Duration::ZERO } else { total })
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "h" => 3600.0,
        "m" => 60.0,
        "s" => 1.0,
        "ms" => 1e-3,
        // Two letters that look the same: micro and mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::cron_job::zone::load_zone;

    #[track_caller]
    fn check(schedule: &str, name: &str, after: &str, expected: &[&str]) {
        let schedule = Schedule::parse(schedule).expect("a schedule");
        let zone = load_zone(Some(name)).expect("the zone is installed");
        let mut at: Timestamp = after.parse().expect("a time");
        for moment in expected {
            at = schedule.next(at, &zone).expect("a next time");
            assert_eq!(at.to_string(), *moment);
        }
    }

    #[test]
    fn the_next_time() {
        check(
            "*/15 * * * *",
            "UTC",
            "2026-03-01T10:07:30Z",
            &["2026-03-01T10:15:00Z", "2026-03-01T10:30:00Z"],
        );
        check(
            "0 9-17/4 * * MON-FRI",
            "UTC",
            "2026-02-27T13:00:00Z",
            &["2026-02-27T17:00:00Z", "2026-03-02T09:00:00Z"],
        );
        check(
            "30 4 1,15 * 5",
            "UTC",
            "2026-05-30T00:00:00Z",
            &["2026-06-01T04:30:00Z", "2026-06-05T04:30:00Z"],
        );
        check("0 0 29 feb *", "UTC", "2026-01-01T00:00:00Z", &["2028-02-29T00:00:00Z"]);
        check("@daily", "UTC", "2026-12-31T00:00:00Z", &["2027-01-01T00:00:00Z"]);
        check("@every 1h30m", "UTC", "2026-01-01T00:00:00.7Z", &["2026-01-01T01:30:00Z"]);
        for brief in ["@every 1ns", "@every -1h", "@every 0", "@every 500ms", "@every 1\u{b5}s", "@every .5s"]
        {
            check(brief, "UTC", "2026-01-01T00:00:00Z", &["2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z"]);
        }
        check("59 23 31 12 *", "UTC", "2026-12-31T23:59:00Z", &["2027-12-31T23:59:00Z"]);
    }

    #[test]
    fn clock_changes() {
        // 02:30 does not exist on 2026-03-29 in Berlin.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-03-28T00:00:00Z",
            &["2026-03-28T01:30:00Z", "2026-03-30T00:30:00Z"],
        );
        // 02:30 comes twice on 2026-10-25.
        check(
            "30 2 * * *",
            "Europe/Berlin",
            "2026-10-24T12:00:00Z",
            &["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"],
        );
        check("0 8 * * *", "America/New_York", "2026-07-01T00:00:00Z", &["2026-07-01T12:00:00Z"]);
    }

    #[test]
    fn what_is_no_schedule() {
        for text in [
            "",
            "* * * *",
            "60 * * * *",
            "* * 0 * *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
            "@often",
            "a * * * *",
            "@every x",
            "@every ",
            "@every 1d",
            "@every 5",
        ] {
            assert!(Schedule::parse(text).is_err(), "{text}");
        }
        assert_eq!(
            Schedule::parse("0 0 31 2 *").expect("a schedule").next(Timestamp::UNIX_EPOCH, &TimeZone::UTC),
            None
        );
    }
}
