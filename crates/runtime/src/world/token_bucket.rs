//! Implements the rate limit, sans I/O, as a bucket of tokens that refills steadily. A caller is told how long to wait;
//! waiting is its reservation, so callers are served in order of arrival.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket.
#[derive(Debug)]
pub(super) struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
    paused_until: Instant,
}

impl TokenBucket {
    pub(super) fn new(per_second: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        // A rate of zero would wait forever; one call per thousand seconds is practically the same as no calls.
        Self { per_second: per_second.max(0.001), burst, tokens: burst, at: now, paused_until: now }
    }

    /// Takes a token; returns how long to wait until it may be used.
    pub(super) fn take(&mut self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = since.mul_add(self.per_second, self.tokens).min(self.burst) - 1.0;
        self.at = now;
        let pause = self.paused_until.saturating_duration_since(now);
        pause.max(Duration::from_secs_f64((-self.tokens / self.per_second).max(0.0)))
    }

    /// Sends nothing until then.
    pub(super) fn pause(&mut self, until: Instant) {
        self.paused_until = self.paused_until.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_the_rest_waits_its_turn() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(10.0, 2, now);
        let waits = [0, 0, 0, 0].map(|_| bucket.take(now).as_millis());
        assert_eq!(waits, [0, 0, 100, 200]);
        let later = now + Duration::from_secs(10);
        assert_eq!(bucket.take(later), Duration::ZERO, "refilled, but not beyond the burst");
        bucket.pause(later + Duration::from_secs(3));
        assert_eq!(bucket.take(later), Duration::from_secs(3));
    }
}
