//! Cron schedules: five fields, or a name such as `@hourly`. Only whether they parse; when they fire is the business of
//! the controller.

const NAMED: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A field: smallest and largest number, and names with the number of the first.
struct Field {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field { min: 1, max: 12, names: &MONTHS },
    Field { min: 0, max: 6, names: &DAYS },
];

/// Says what is wrong with a schedule.
pub(in crate::kinds) fn check(schedule: &str) -> Result<(), String> {
    let schedule = strip_zone(schedule);
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", parts.len(), parts.join(" ")));
    }
    for (part, field) in parts.iter().zip(&FIELDS) {
        part.split(',').try_for_each(|range| check_range(range, field))?;
    }
    Ok(())
}

/// A zone in front is refused elsewhere; here it only must not disturb the count.
fn strip_zone(schedule: &str) -> &str {
    if !schedule.starts_with("TZ=") && !schedule.starts_with("CRON_TZ=") {
        return schedule;
    }
    schedule.split_once(' ').map_or("", |(_, rest)| rest.trim_start())
}

fn descriptor(name: &str) -> Result<(), String> {
    if NAMED.contains(&name) {
        return Ok(());
    }
    let Some(duration) = name.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {name}"));
    };
    if is_duration(duration) {
        Ok(())
    } else {
        Err(format!("failed to parse duration {name}: time: invalid duration {duration:?}"))
    }
}

/// Does Go read it as a duration: `1h30m`, `1.5h`, `-3ns`? The controller reads the same.
fn is_duration(text: &str) -> bool {
    /// Go counts nanoseconds in 63 bits: 292 years.
    const SECONDS_MAX: f64 = 9_223_372_036.0;
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let (is_something, mut seconds) = (!rest.is_empty(), 0.0);
    while !rest.is_empty() {
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let Some(unit_at) = rest.find(|letter| !is_number(letter)) else { return false };
        let (number, after) = rest.split_at(unit_at);
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        let (Ok(number), Some(factor)) = (number.parse::<f64>(), unit_seconds(unit)) else { return false };
        seconds += number * factor;
        rest = after;
    }
    is_something && seconds <= SECONDS_MAX
}

fn unit_seconds(unit: &str) -> Option<f64> {
    // The two micros look the same: the sign and the Greek letter.
    let units = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    units.into_iter().find(|(name, _)| *name == unit).map(|(_, seconds)| seconds)
}

fn check_range(text: &str, field: &Field) -> Result<(), String> {
    let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
    let (low, high) = range.split_once('-').map_or((range, None), |(low, high)| (low, Some(high)));
    let (start, end) = if matches!(low, "*" | "?") && high.is_none() {
        (field.min, field.max)
    } else {
        let start = number(low, field)?;
        let end = match high {
            Some(high) => number(high, field)?,
            None if step.is_some() => field.max,
            None => start,
        };
        (start, end)
    };
    if let Some(step) = step {
        let step: u32 = step.parse().map_err(|_| format!("failed to parse int from {step}"))?;
        if step == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
    }
    if start < field.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", field.min));
    }
    if end > field.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", field.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    Ok(())
}

fn number(text: &str, field: &Field) -> Result<u32, String> {
    let named = field.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    if let Some(at) = named {
        return Ok(field.min + u32::try_from(at).expect("at most twelve names"));
    }
    text.parse().map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_parse_as_cron_does() {
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
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let bad = [
            ("not a schedule", "expected exactly 5 fields, found 3: [not a schedule]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("@every 1d", "failed to parse duration @every 1d: time: invalid duration \"1d\""),
            ("@every 1hs", "failed to parse duration @every 1hs: time: invalid duration \"1hs\""),
            ("@every 5", "failed to parse duration @every 5: time: invalid duration \"5\""),
            ("@often", "unrecognized descriptor: @often"),
        ];
        for (schedule, expected) in bad {
            assert_eq!(check(schedule).as_ref().map_err(String::as_str), Err(expected), "{schedule}");
        }
    }
}
