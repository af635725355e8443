//! Measures how fast the objects of one kind change, and decides how they are shown to a viewer.
//!
//! **Invariant:** the cost of a kind to a viewer is bounded, however fast the kind changes: its watch ends after a
//! burst, and the pause before the next list grows with the number of its objects.

use std::time::Duration;

use tokio::time::Instant;

/// The number of changes in one [`WINDOW`] that is too many to follow: two thousand per second.
const BURST: u32 = 400;

/// The period in which changes are counted.
const WINDOW: Duration = Duration::from_millis(200);

/// The pause before a list for every [`LISTED_PER_PAUSE`] objects: some milliseconds of work a second.
const PAUSE: Duration = Duration::from_secs(1);
const LISTED_PER_PAUSE: usize = 500;

/// The longest pause, and the longest time that a viewer waits to see the end of a burst.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Counts the changes of a kind.
pub(super) struct ChangeRate {
    since: Instant,
    changes: u32,
}

impl ChangeRate {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, changes: 0 }
    }

    /// Counts a change, and returns whether changes arrive too fast to be shown one by one.
    pub(super) fn is_too_fast(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) > WINDOW {
            *self = Self::new(now);
        }
        self.changes += 1;
        self.changes >= BURST
    }
}

/// Returns how long to wait before a kind with this many objects is listed again.
pub(super) fn pause_before_list(objects: usize) -> Duration {
    let pauses = 1 + objects / LISTED_PER_PAUSE;
    PAUSE_MAX.min(PAUSE.saturating_mul(u32::try_from(pauses).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thousand_changes_a_second_are_shown_and_more_than_two_thousand_are_not() {
        let start = Instant::now();
        let is_too_fast = |per_second: u32| {
            let mut rate = ChangeRate::new(start);
            (0..per_second)
                .any(|number| rate.is_too_fast(start + Duration::from_secs(1) * number / per_second))
        };
        assert!(!is_too_fast(1000));
        assert!(is_too_fast(2500));
    }

    #[test]
    fn long_lists_are_rare() {
        assert_eq!(pause_before_list(100), Duration::from_secs(1));
        assert_eq!(pause_before_list(1_200), Duration::from_secs(3));
        assert_eq!(pause_before_list(10_000), Duration::from_secs(5));
    }
}
