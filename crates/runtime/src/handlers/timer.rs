//! Decides when a timer ticks, without I/O.
//!
//! **The phase outlives the process.** Ticks a minute or more apart are recorded with the object; recording closer ones
//! would cost a write each, so after a restart they follow the grid that starts at the object's creation. A single tick
//! makes up for all ticks missed while no process was running.

use std::time::Duration;

use jiff::Timestamp;

use super::retry_policy::{add_saturating, duration_between};

/// Ticks at least this far apart are recorded: one write per object per minute is acceptable, one per second is not.
const RECORDED_FROM: Duration = Duration::from_secs(60);

/// When a timer ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    pub(super) interval: Duration,
    /// Whether the interval is counted from start to start, rather than from the end of one tick to the start of the
    /// next.
    pub(super) is_sharp: bool,
    /// Ticks only after the object has not been edited for this long.
    pub(super) idle: Option<Duration>,
    /// The time from the object's creation to the first tick.
    pub(super) initial_delay: Duration,
}

/// The state of a timer for one object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    /// The last tick.
    pub(super) last: Option<Timestamp>,
    /// When the object was created.
    pub(super) created: Timestamp,
    /// When the object last changed.
    pub(super) unchanged: Timestamp,
    /// Whether the object existed before this process.
    pub(super) is_inherited: bool,
}

impl Schedule {
    /// Returns whether each tick is recorded with the object.
    pub(super) fn is_recorded(&self) -> bool {
        self.interval >= RECORDED_FROM
    }

    /// Returns when the next tick is due; a time in the past means now.
    pub(super) fn next(&self, phase: &Phase, now: Timestamp) -> Timestamp {
        let first = add_saturating(phase.created, self.initial_delay);
        let due = match phase.last {
            Some(last) => add_saturating(last, self.interval),
            None if phase.is_inherited && !self.is_recorded() => self.on_grid(first, now),
            None => first,
        };
        self.idle.map_or(due, |idle| due.max(add_saturating(phase.unchanged, idle)))
    }

    /// Returns the time to record for a tick with this start and end.
    pub(super) fn ticked(&self, due: Timestamp, began: Timestamp, ended: Timestamp) -> Timestamp {
        if !self.is_sharp {
            return ended;
        }
        // The last point of the grid through `due` that is not after the start.
        let missed = self.whole_intervals(duration_between(due, began));
        add_saturating(due, missed)
    }

    /// Returns the first point of the grid from `first` that is not before `now`.
    fn on_grid(&self, first: Timestamp, now: Timestamp) -> Timestamp {
        let passed = duration_between(first, now);
        let whole = self.whole_intervals(passed);
        let point = add_saturating(first, whole);
        if point < now { add_saturating(point, self.interval) } else { point }
    }

    /// Returns `passed`, rounded down to a multiple of the interval.
    fn whole_intervals(&self, passed: Duration) -> Duration {
        let interval = self.interval.as_nanos().max(1);
        let whole = passed.as_nanos() / interval * interval;
        Duration::from_nanos(u64::try_from(whole).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Schedule = Schedule {
        interval: Duration::from_secs(60),
        is_sharp: false,
        idle: None,
        initial_delay: Duration::ZERO,
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[track_caller]
    fn check(schedule: Schedule, last: Option<i64>, is_inherited: bool, now: i64, expected: i64) {
        let phase = Phase { last: last.map(at), created: at(1000), unchanged: at(1000), is_inherited };
        assert_eq!(schedule.next(&phase, at(now)).as_second(), expected);
    }

    #[test]
    fn the_next_tick() {
        check(MINUTE, None, false, 1000, 1000);
        check(Schedule { initial_delay: Duration::from_secs(30), ..MINUTE }, None, false, 1000, 1030);
        check(MINUTE, Some(1010), false, 1020, 1070);
        check(Schedule { idle: Some(Duration::from_secs(300)), ..MINUTE }, Some(1010), false, 1020, 1300);
        // After a restart, a recorded timer continues where it was, and a fast one follows its grid.
        check(MINUTE, Some(1010), true, 1020, 1070);
        check(MINUTE, None, true, 9000, 1000);
        let quick = Schedule { interval: Duration::from_secs(10), ..MINUTE };
        check(quick, None, true, 1034, 1040);
        check(quick, None, true, 1040, 1040);
        check(quick, None, true, 990, 1000);
    }

    #[test]
    fn what_is_remembered() {
        let sharp = Schedule { is_sharp: true, ..MINUTE };
        assert_eq!(MINUTE.ticked(at(100), at(101), at(109)), at(109), "from the end");
        assert_eq!(sharp.ticked(at(100), at(101), at(109)), at(100), "from the point it was due");
        assert_eq!(
            sharp.ticked(at(100), at(250), at(251)),
            at(220),
            "missed points are skipped, the grid stays"
        );
    }
}
