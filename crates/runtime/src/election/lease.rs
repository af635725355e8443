//! When a Lease may be taken, sans I/O: the rules of Kubernetes' leader election.
//!
//! Clocks of replicas are not compared: a candidate measures with its own clock how long it has seen no renewal. The
//! holder's right ends two thirds of the term after it *sent* its last successful renewal, and another may take the
//! lease a whole term after it *saw* it, so between the two lies at least a third of a term in which nobody writes.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// How long others wait without a renewal before they take over, unless told. With the two shares below it makes the
/// 15, 10 and 2 seconds that Kubernetes' own controllers use.
pub(crate) const TERM: Duration = Duration::from_secs(15);

/// The term of a lease that was given back.
const RELEASED_SECONDS: i32 = 1;

/// The times of a lease, all from its term.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// How long others wait without a renewal before they take over.
    pub(super) term: Duration,
    /// How long a renewal gives the right to act.
    pub(super) renew_within: Duration,
    /// The pause between two looks.
    pub(super) look_every: Duration,
}

impl Terms {
    /// A Lease counts whole seconds, so a term is at least one and never rounded down.
    pub(super) fn new(term: Duration) -> Self {
        let seconds = term.as_secs() + u64::from(term.subsec_nanos() > 0);
        let term = Duration::from_secs(seconds.max(1));
        Self { term, renew_within: term * 2 / 3, look_every: term * 2 / 15 }
    }
}

/// What a candidate should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Write itself in as the holder, for the n-th time the holder changes.
    Take { transitions: i32 },
    /// Renew what it holds.
    Renew { transitions: i32 },
    /// Somebody else holds it.
    Wait,
}

/// One replica's view of one lease.
#[derive(Debug, Default)]
pub(super) struct Candidate {
    seen: Option<(LeaseSpec, Instant)>,
}

impl Candidate {
    /// Looks at the lease as it is now.
    pub(super) fn judge(&mut self, identity: &str, lease: Option<&LeaseSpec>, now: Instant) -> Move {
        let Some(lease) = lease else {
            return if self.was_held(identity, now) { Move::Wait } else { Move::Take { transitions: 0 } };
        };
        let transitions = lease.lease_transitions.unwrap_or(0);
        let holder = lease.holder_identity.as_deref().unwrap_or_default();
        if holder == identity {
            return Move::Renew { transitions };
        }
        let is_held = match holder {
            "" if is_released(lease) => {
                self.seen = None;
                false
            }
            "" => self.was_held(identity, now),
            _ => self.is_alive(lease, now),
        };
        if is_held { Move::Wait } else { Move::Take { transitions: transitions.saturating_add(1) } }
    }

    /// Did we see another holder within its term? Somebody may have deleted or emptied the lease under it, and its
    /// right goes on: it is waited for as if the lease were still there.
    fn was_held(&self, identity: &str, now: Instant) -> bool {
        self.seen.as_ref().is_some_and(|(lease, since)| {
            let holder = lease.holder_identity.as_deref().unwrap_or_default();
            !holder.is_empty() && holder != identity && is_within(lease, *since, now)
        })
    }

    /// Was the lease renewed within its time, as far as we could see?
    pub(super) fn is_alive(&mut self, lease: &LeaseSpec, now: Instant) -> bool {
        let since = match &self.seen {
            Some((seen, since)) if seen == lease => *since,
            _ => {
                self.seen = Some((lease.clone(), now));
                now
            }
        };
        is_within(lease, since, now)
    }
}

/// Has the term of this lease not yet passed since then?
fn is_within(lease: &LeaseSpec, since: Instant, now: Instant) -> bool {
    let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    now.saturating_duration_since(since) < seconds.map_or(TERM, Duration::from_secs)
}

/// The lease as its holder leaves it: without a holder, and with the shortest of terms, by which all who follow
/// Kubernetes' rules know that it was given back and not emptied by hand.
pub(super) fn released(lease: LeaseSpec) -> LeaseSpec {
    LeaseSpec { holder_identity: None, lease_duration_seconds: Some(RELEASED_SECONDS), ..lease }
}

fn is_released(lease: &LeaseSpec) -> bool {
    lease.lease_duration_seconds == Some(RELEASED_SECONDS)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn lease(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(4),
            renew_time: Some(MicroTime(jiff::Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn free_leases_are_taken_and_own_ones_renewed() {
        let mut candidate = Candidate::default();
        let now = Instant::now();
        assert_eq!(candidate.judge("me", None, now), Move::Take { transitions: 0 });
        assert_eq!(candidate.judge("me", Some(&lease("", 1)), now), Move::Take { transitions: 5 });
        assert_eq!(candidate.judge("me", Some(&lease("me", 1)), now), Move::Renew { transitions: 4 });
    }

    #[test]
    fn another_holder_is_replaced_only_when_it_stops_renewing() {
        let mut candidate = Candidate::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        // The holder's clock may be a year off: only changes count.
        assert_eq!(candidate.judge("me", Some(&lease("you", 1)), after(0)), Move::Wait);
        assert_eq!(candidate.judge("me", Some(&lease("you", 2)), after(14)), Move::Wait);
        assert_eq!(candidate.judge("me", Some(&lease("you", 2)), after(28)), Move::Wait);
        assert_eq!(candidate.judge("me", Some(&lease("you", 2)), after(29)), Move::Take { transitions: 5 });
    }

    #[test]
    fn a_lease_that_vanished_under_its_holder_is_waited_for() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let who_saw = || {
            let mut candidate = Candidate::default();
            assert_eq!(candidate.judge("me", Some(&lease("you", 1)), start), Move::Wait);
            candidate
        };
        let emptied = lease("", 1);
        for lost in [None, Some(&emptied)] {
            let mut candidate = who_saw();
            assert_eq!(candidate.judge("me", lost, after(14)), Move::Wait, "{lost:?}");
            assert!(matches!(candidate.judge("me", lost, after(15)), Move::Take { .. }), "{lost:?}");
        }
        let given_back = released(lease("you", 1));
        let mut candidate = who_saw();
        assert_eq!(candidate.judge("me", Some(&given_back), after(1)), Move::Take { transitions: 5 });
        assert_eq!(candidate.judge("me", None, after(2)), Move::Take { transitions: 0 });
    }
}
