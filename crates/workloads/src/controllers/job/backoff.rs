//! Decides how long to wait before a failed Pod is replaced: a backoff that starts when the Pod finished. This module
//! is pure.

use std::time::Duration;

use jiff::Timestamp;

use crate::controllers::partial_pod::PartialPod;

/// The wait before a failed Pod is replaced: it doubles with each failure in a row, up to the maximum.
const BACKOFF: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_secs(600);

/// Returns the time since `since`; zero if that is in the future.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// Returns the wait after this many failures beyond the first.
pub(super) fn backoff_after(doublings: u32) -> Duration {
    let wait = 2_u32.checked_pow(doublings).map_or(BACKOFF_MAX, |factor| BACKOFF.saturating_mul(factor));
    wait.min(BACKOFF_MAX)
}

/// Returns when a Pod finished, according to its status.
pub(super) fn finished(pod: &PartialPod) -> Option<Timestamp> {
    let ends = pod.status.container_statuses.iter().map(|status| {
        let terminated = status.state.as_ref()?.terminated.as_ref()?;
        terminated.finished_at.as_ref().map(|time| time.0)
    });
    let of_containers = ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max());
    let unready = pod
        .status
        .conditions
        .iter()
        .find(|condition| condition.r#type == "Ready" && condition.status == "False");
    let of_condition =
        unready.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
    let of_deletion = pod.metadata.deletion_timestamp.as_ref().map(|time| {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        // The subtraction is checked, because the grace period may be any number that a client can write.
        time.0.checked_sub(jiff::SignedDuration::from_secs(grace)).unwrap_or(time.0)
    });
    of_containers.or(of_condition).or(of_deletion).or_else(|| pod.created())
}
