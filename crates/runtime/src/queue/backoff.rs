//! Determines how long to wait after the n-th failure in a row: exponential, capped, with jitter.
//!
//! Jitter only lengthens the delay, so "at least 1 s, 2 s, 4 s" is guaranteed, and keys that failed together spread
//! out.

use std::time::Duration;

use homeostat_core::Entropy;

/// A retry schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    jitter: f64,
}

impl Backoff {
    /// Waits for `first`, doubled with each failure in a row, never longer than `max`; jitter of up to a tenth is
    /// added.
    pub const fn exponential(first: Duration, max: Duration) -> Self {
        Self { first, max, jitter: 0.1 }
    }

    /// Sets the maximum jitter, as a share of the delay (0 to 1).
    #[must_use]
    pub const fn jitter(self, share: f64) -> Self {
        Self { jitter: share.clamp(0.0, 1.0), ..self }
    }

    /// Returns the delay after `failures` failures in a row (1 is the first).
    pub fn delay(&self, failures: u32, entropy: &Entropy) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let plain = self.first.saturating_mul(1 << doublings).min(self.max);
        plain + plain.mul_f64(self.jitter * entropy.unit())
    }
}

impl Default for Backoff {
    /// Returns 1 s, 2 s, 4 s … 5 min: quick enough for a brief failure, gentle enough for an outage.
    fn default() -> Self {
        Self::exponential(Duration::from_secs(1), Duration::from_secs(5 * 60))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_up_to_five_minutes() {
        let plain = Backoff::default().jitter(0.0);
        let delays = [1, 2, 3, 4, 9, 10, 40].map(|n| plain.delay(n, &Entropy::seeded(1)).as_secs());
        assert_eq!(delays, [1, 2, 4, 8, 256, 300, 300]);
    }

    #[test]
    fn jitter_only_lengthens() {
        let entropy = Entropy::seeded(3);
        for _ in 0..1000 {
            let delay = Backoff::default().delay(3, &entropy).as_secs_f64();
            assert!((4.0..4.4).contains(&delay), "{delay}");
        }
    }
}
