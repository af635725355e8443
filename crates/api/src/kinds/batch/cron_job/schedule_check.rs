//! Checks that a cron schedule parses. The controller, which uses the same parser, decides when it fires.

use homeostat_core::cron::Schedule;

/// Returns an error if the schedule is invalid.
pub(in crate::kinds) fn check(schedule: &str) -> Result<(), String> {
    strip_zone(schedule).parse::<Schedule>().map(drop)
}

/// Removes a leading time zone, which is rejected elsewhere, so that it does not affect the number of fields.
fn strip_zone(schedule: &str) -> &str {
    if !schedule.starts_with("TZ=") && !schedule.starts_with("CRON_TZ=") {
        return schedule;
    }
    schedule.split_once(' ').map_or("", |(_, rest)| rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_in_front_is_left_to_others() {
        assert_eq!(check("TZ=UTC */5 * * * *"), Ok(()));
        assert_eq!(check("CRON_TZ=UTC"), Err("expected exactly 5 fields, found 0: []".to_owned()));
        assert_eq!(check("@often"), Err("unrecognized descriptor: @often".to_owned()));
    }
}
