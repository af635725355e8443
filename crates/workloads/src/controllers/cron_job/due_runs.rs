//! Decides which run of a schedule is due now. This module is pure.
//!
//! After a long absence only the most recent missed run is started, never all of them.

use std::time::Duration;

use homeostat_core::cron::Schedule;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// With this many missed runs or more, the clock is probably wrong, and an event says so.
const MISSED_MANY: i64 = 100;

/// A schedule in its time zone, and when it last ran.
pub(super) struct ScheduleWindow<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) zone: &'a TimeZone,
    /// The time of the last run, or the creation time of the CronJob.
    pub(super) since: Timestamp,
    pub(super) now: Timestamp,
}

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DueRun {
    pub(super) at: Timestamp,
    pub(super) has_missed_many: bool,
}

impl ScheduleWindow<'_> {
    /// Returns the most recent run that is due. Runs older than `deadline` are ignored.
    pub(super) fn due_run(&self, deadline: Option<Duration>) -> Option<DueRun> {
        let horizon = deadline.and_then(|deadline| self.now.checked_sub(deadline).ok());
        let since = horizon.map_or(self.since, |horizon| horizon.max(self.since));
        self.most_recent(since)
    }

    /// Returns the time until the next run.
    pub(super) fn next_in(&self) -> Option<Duration> {
        let next = self.next(self.now.max(self.since))?;
        Duration::try_from(next.duration_since(self.now)).ok()
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        self.schedule.next(after, self.zone)
    }

    fn most_recent(&self, since: Timestamp) -> Option<DueRun> {
        let first = self.next(since).filter(|first| *first <= self.now)?;
        let Some(second) = self.next(first).filter(|second| *second <= self.now) else {
            return Some(DueRun { at: first, has_missed_many: false });
        };
        let period = second.duration_since(first).as_secs().max(1);
        let missed = self.now.duration_since(first).as_secs() / period + 1;
        // Jumps close to now; an irregular schedule may have to start earlier.
        let jump = SignedDuration::from_secs((missed - 2).max(0).saturating_mul(period));
        let start = first.checked_add(jump).unwrap_or(first);
        let late = self.last_before_now(start).or_else(|| self.last_before_now(first));
        Some(DueRun { at: late.unwrap_or(second), has_missed_many: missed > MISSED_MANY })
    }

    fn last_before_now(&self, start: Timestamp) -> Option<Timestamp> {
        let runs = std::iter::successors(self.next(start), |run| self.next(*run));
        runs.take_while(|run| *run <= self.now).last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(schedule: &str, since: &str, now: &str, deadline: Option<u64>, due: Option<&str>, next_in: u64) {
        let schedule: Schedule = schedule.parse().expect("a schedule");
        let time = |text: &str| text.parse::<Timestamp>().expect("a time");
        let plan =
            ScheduleWindow { schedule: &schedule, zone: &TimeZone::UTC, since: time(since), now: time(now) };
        let found = plan.due_run(deadline.map(Duration::from_secs)).map(|due| due.at);
        assert_eq!(found, due.map(time));
        assert_eq!(plan.next_in(), Some(Duration::from_secs(next_in)));
    }

    #[test]
    fn the_most_recent_run_is_due() {
        check("*/5 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:04:59Z", None, None, 1);
        check(
            "*/5 * * * *",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:05:00Z",
            None,
            Some("2026-01-01T00:05:00Z"),
            300,
        );
        check(
            "*/5 * * * *",
            "2026-01-01T00:00:00Z",
            "2026-01-01T00:17:00Z",
            None,
            Some("2026-01-01T00:15:00Z"),
            180,
        );
        check("*/5 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:17:00Z", Some(60), None, 180);
        check(
            "0 0 1 * *",
            "2025-01-15T00:00:00Z",
            "2026-01-01T12:00:00Z",
            None,
            Some("2026-01-01T00:00:00Z"),
            2_635_200,
        );
        check(
            "* * * * *",
            "2025-01-01T00:00:00Z",
            "2026-01-01T00:00:30Z",
            None,
            Some("2026-01-01T00:00:00Z"),
            30,
        );
    }

    #[test]
    fn many_missed_runs_are_reported() {
        let schedule: Schedule = "* * * * *".parse().expect("a schedule");
        let since = Timestamp::UNIX_EPOCH;
        let now = since.checked_add(Duration::from_secs(7200)).expect("a time");
        let plan = ScheduleWindow { schedule: &schedule, zone: &TimeZone::UTC, since, now };
        assert_eq!(plan.due_run(None), Some(DueRun { at: now, has_missed_many: true }));
    }
}
