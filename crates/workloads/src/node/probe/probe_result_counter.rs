//! Counts equal results in a row: a probe's result counts only after enough repetitions.

use k8s_openapi::api::core::v1::Probe;

/// Counts equal results in a row.
pub(super) struct ProbeResultCounter {
    successes_needed: u32,
    failures_needed: u32,
    last: Option<bool>,
    in_a_row: u32,
}

impl ProbeResultCounter {
    pub(super) fn new(probe: &Probe) -> Self {
        let count = |given: Option<i32>, otherwise: u32| {
            given.and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0).unwrap_or(otherwise)
        };
        Self {
            successes_needed: count(probe.success_threshold, 1),
            failures_needed: count(probe.failure_threshold, 3),
            last: None,
            in_a_row: 0,
        }
    }

    /// Counts a result. Returns it once it has been repeated often enough.
    pub(super) fn count(&mut self, is_good: bool) -> Option<bool> {
        if self.last != Some(is_good) {
            self.in_a_row = 0;
        }
        self.last = Some(is_good);
        self.in_a_row = self.in_a_row.saturating_add(1);
        let needed = if is_good { self.successes_needed } else { self.failures_needed };
        (self.in_a_row >= needed).then_some(is_good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_when_repeated() {
        let probe = Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Probe::default() };
        let mut counter = ProbeResultCounter::new(&probe);
        let said: Vec<_> =
            [true, true, false, false, true, false, false, false].map(|answer| counter.count(answer)).into();
        let expected = [None, Some(true), None, None, None, None, None, Some(false)];
        assert_eq!(said, expected);
    }
}
