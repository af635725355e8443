//! Decides when a Lease may be acquired, sans I/O, by the rules of Kubernetes' leader election.
//!
//! The clocks of replicas are not compared: a candidate uses its own clock to measure how long it has seen no renewal.
//! The holder's leadership ends two thirds of the term after it *sent* its last successful renewal, and another replica
//! may acquire the lease a whole term after it *saw* it, so between the two there is at least a third of a term in
//! which nobody writes.
//!
//! **Invariant:** only a lease that was released, or not renewed for a term, is free. A lease that has vanished, was
//! emptied, or was edited to name us says nothing about leaders that may still be acting, so a replica that acquires it
//! renews it for a term before it acts.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// How long others wait without a renewal before they take over, by default. Together with the two fractions below,
/// this gives the 15, 10 and 2 seconds that Kubernetes' own controllers use.
pub(crate) const TERM: Duration = Duration::from_secs(15);

/// The times of a lease, all derived from its term.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeaseTimes {
    /// How long others wait without a renewal before they take over.
    pub(super) term: Duration,
    /// How long the holder may act after a renewal.
    pub(super) renew_within: Duration,
    /// The pause between two reads of the lease.
    pub(super) renew_every: Duration,
    /// How long a former leader may take to finish work that can no longer write: half of the time until another
    /// replica may act.
    pub(super) spare: Duration,
    /// How long one response may take: a read that hangs must leave time for another before leadership ends.
    pub(super) answer_within: Duration,
}

impl LeaseTimes {
    /// Derives the times from a term. A Lease counts whole seconds, so the term is at least one and never rounded down.
    pub(super) fn new(term: Duration) -> Self {
        let seconds = term.as_secs() + u64::from(term.subsec_nanos() > 0);
        let term = Duration::from_secs(seconds.max(1));
        Self {
            term,
            renew_within: term * 2 / 3,
            renew_every: term * 2 / 15,
            spare: term / 6,
            answer_within: term * 4 / 15,
        }
    }
}

/// The duration written into a released lease, the same as in Kubernetes' own controllers. It distinguishes a released
/// lease from one that someone else emptied.
const GIVEN_BACK_SECONDS: i32 = 1;

/// Returns the lease in a state in which it is free from now on.
pub(super) fn given_back(lease: &LeaseSpec) -> LeaseSpec {
    LeaseSpec {
        lease_duration_seconds: Some(GIVEN_BACK_SECONDS),
        lease_transitions: lease.lease_transitions,
        ..LeaseSpec::default()
    }
}

fn is_given_back(lease: &LeaseSpec) -> bool {
    lease.lease_duration_seconds == Some(GIVEN_BACK_SECONDS) && lease.renew_time.is_none()
}

/// The next action of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseAction {
    /// Make itself the holder, with this number of transitions.
    Take { transitions: i32 },
    /// Renew the lease that it holds.
    Renew { transitions: i32 },
    /// Another replica holds it.
    Wait,
}

/// Our relation to a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LeaseStanding {
    /// It does not name us, or we do not know why it does.
    #[default]
    Stranger,
    /// It names us, or will name us once our pending write arrives; we may act between these two times.
    Holder { from: Instant, until: Instant },
}

/// One replica's view of one lease.
#[derive(Debug, Default)]
pub(super) struct LeaseCandidate {
    seen: Option<(LeaseSpec, Instant)>,
    standing: LeaseStanding,
}

impl LeaseCandidate {
    /// Evaluates the lease as it was just read.
    pub(super) fn evaluate_lease(
        &mut self,
        identity: &str,
        lease: Option<&LeaseSpec>,
        now: Instant,
        term: Duration,
    ) -> LeaseAction {
        let transitions = lease.and_then(|lease| lease.lease_transitions).unwrap_or(0);
        let next = LeaseAction::Take { transitions: transitions.saturating_add(i32::from(lease.is_some())) };
        let holder = lease.and_then(|lease| lease.holder_identity.as_deref()).unwrap_or_default();
        match lease {
            _ if holder == identity => LeaseAction::Renew { transitions },
            Some(lease) if !holder.is_empty() => {
                self.standing = LeaseStanding::Stranger;
                if self.is_alive(lease, now, term) {
                    return LeaseAction::Wait;
                }
                self.take_over(now);
                next
            }
            Some(lease) if is_given_back(lease) => {
                self.take_over(now);
                next
            }
            // It vanished or was emptied while we held it, but our leadership is still valid, so nobody else can lead.
            _ if self.right(now).is_some() => next,
            // The last known holder will write it again.
            _ if self.seen.as_ref().is_some_and(|(lease, since)| !is_over(lease, *since, now, term)) => {
                LeaseAction::Wait
            }
            _ => {
                self.standing = LeaseStanding::Stranger;
                next
            }
        }
    }

    /// Records that we sent a write, which may arrive even if we get no response.
    fn take_over(&mut self, now: Instant) {
        self.standing = LeaseStanding::Holder { from: now, until: now };
    }

    /// Records that the write sent at `sent` arrived; the current time is `now`.
    pub(super) fn wrote(&mut self, sent: Instant, now: Instant, terms: LeaseTimes) {
        let from = match self.standing {
            LeaseStanding::Stranger => now + terms.term,
            LeaseStanding::Holder { from, .. } => from,
        };
        // Leadership is counted from the time before the request was sent: a later time on the server cannot extend it.
        self.standing = LeaseStanding::Holder { from, until: sent + terms.renew_within };
    }

    /// Records that the lease belongs to another replica, or soon will.
    pub(super) fn lost(&mut self) {
        self.standing = LeaseStanding::Stranger;
    }

    /// Returns the time until which we may act, if we currently may.
    pub(super) fn right(&self, now: Instant) -> Option<Instant> {
        match self.standing {
            LeaseStanding::Holder { from, until } if from <= now && now < until => Some(until),
            _ => None,
        }
    }

    /// Returns how long it takes until we may act, if we only have to wait.
    pub(super) fn begins_in(&self, now: Instant) -> Option<Duration> {
        match self.standing {
            LeaseStanding::Holder { from, .. } if from > now => Some(from - now),
            _ => None,
        }
    }

    /// Returns whether a replica that found the lease released would be the only one to act. This is not the case while
    /// we are waiting for another replica's leadership to end.
    pub(super) fn may_give_back(&self, now: Instant) -> bool {
        matches!(self.standing, LeaseStanding::Holder { from, .. } if from <= now)
    }

    /// Returns whether the lease was renewed in time, as far as we can tell.
    pub(super) fn is_alive(&mut self, lease: &LeaseSpec, now: Instant, term: Duration) -> bool {
        let since = match &self.seen {
            Some((seen, since)) if seen == lease => *since,
            _ => {
                self.seen = Some((lease.clone(), now));
                now
            }
        };
        !is_over(lease, since, now, term)
    }

    /// Returns whether its holder may act under it, as far as we can tell.
    pub(super) fn is_in_use(&mut self, lease: &LeaseSpec, now: Instant, term: Duration) -> bool {
        self.is_alive(lease, now, term) && !is_given_back(lease)
    }

    /// Returns whether the last known holder may still recreate a lease that is gone.
    pub(super) fn may_return(&self, now: Instant, term: Duration) -> bool {
        let known = self.seen.as_ref().filter(|(lease, _)| !is_given_back(lease));
        known.is_some_and(|(lease, since)| !is_over(lease, *since, now, term))
    }

    /// Returns how long we have seen no change.
    pub(super) fn unchanged_for(&self, now: Instant) -> Duration {
        self.seen.as_ref().map_or(Duration::ZERO, |(_, since)| now.saturating_duration_since(*since))
    }
}

/// Returns whether a lease has expired. A lease that was edited may state a shorter duration than its holder uses.
fn is_over(lease: &LeaseSpec, since: Instant, now: Instant, term: Duration) -> bool {
    let seconds = lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    now.saturating_duration_since(since) >= seconds.map_or(term, Duration::from_secs).max(term)
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

    /// Checks what a candidate does at the last of these observations: seconds, the lease, whether writes arrive.
    #[track_caller]
    fn check(looks: &[(u64, Option<LeaseSpec>)], expected: LeaseAction, may_act: bool) {
        let (mut candidate, start, terms) =
            (LeaseCandidate::default(), Instant::now(), LeaseTimes::new(TERM));
        let mut last = LeaseAction::Wait;
        for (seconds, lease) in looks {
            let now = start + Duration::from_secs(*seconds);
            last = candidate.evaluate_lease("me", lease.as_ref(), now, TERM);
            if last != LeaseAction::Wait {
                candidate.wrote(now, now, terms);
            }
            assert!(candidate.right(now).is_none() || last != LeaseAction::Wait);
        }
        let now = start + Duration::from_secs(looks.last().unwrap().0);
        assert_eq!((last, candidate.right(now).is_some()), (expected, may_act), "{looks:?}");
    }

    fn emptied() -> LeaseSpec {
        LeaseSpec { holder_identity: None, ..lease("you", 1) }
    }

    #[test]
    fn a_lease_given_back_is_taken_at_once() {
        check(&[(0, Some(given_back(&lease("you", 1))))], LeaseAction::Take { transitions: 5 }, true);
        check(
            &[(0, Some(lease("you", 1))), (1, Some(given_back(&lease("you", 1))))],
            LeaseAction::Take { transitions: 5 },
            true,
        );
    }

    #[test]
    fn another_holder_is_replaced_only_when_it_stops_renewing() {
        // The holder's clock may be a year off: only changes count.
        let looks = [0, 14, 28, 29].map(|seconds| (seconds, Some(lease("you", i64::from(seconds > 0)))));
        check(&looks[..3], LeaseAction::Wait, false);
        check(&looks, LeaseAction::Take { transitions: 5 }, true);
        let short = LeaseSpec { lease_duration_seconds: Some(1), ..lease("you", 1) };
        check(&[(0, Some(short.clone())), (14, Some(short))], LeaseAction::Wait, false);
    }

    #[test]
    fn a_lease_that_says_nothing_is_held_for_a_term_before_its_holder_acts() {
        for start in [None, Some(emptied()), Some(LeaseSpec::default()), Some(lease("me", 1))] {
            let expected = match &start {
                None => LeaseAction::Take { transitions: 0 },
                Some(lease) if lease.holder_identity.is_some() => LeaseAction::Renew { transitions: 4 },
                Some(lease) => LeaseAction::Take { transitions: lease.lease_transitions.unwrap_or(0) + 1 },
            };
            check(&[(0, start.clone())], expected, false);
            check(
                &[(0, start.clone()), (14, Some(lease("me", 1)))],
                LeaseAction::Renew { transitions: 4 },
                false,
            );
            check(
                &[(0, start.clone()), (15, Some(lease("me", 1)))],
                LeaseAction::Renew { transitions: 4 },
                true,
            );
            // The lease vanishes again, so the waiting time starts over.
            check(
                &[(0, start), (14, None), (15, Some(lease("me", 1)))],
                LeaseAction::Renew { transitions: 4 },
                false,
            );
        }
    }

    #[test]
    fn whoever_saw_a_living_holder_lets_it_put_its_lease_back() {
        let living = Some(lease("you", 1));
        for gone in [None, Some(emptied())] {
            check(&[(0, living.clone()), (14, gone.clone())], LeaseAction::Wait, false);
        }
        check(&[(0, living), (15, None)], LeaseAction::Take { transitions: 0 }, false);
    }

    #[test]
    fn a_holder_whose_lease_vanished_goes_on_while_its_right_runs() {
        let held = [(0, Some(given_back(&lease("you", 1)))), (2, Some(lease("me", 1)))];
        for gone in [None, Some(emptied())] {
            let transitions = if gone.is_some() { 5 } else { 0 };
            check(&[&held[..], &[(4, gone.clone())]].concat(), LeaseAction::Take { transitions }, true);
            check(&[&held[..], &[(12, gone)]].concat(), LeaseAction::Take { transitions }, false);
        }
        check(&[&held[..], &[(4, Some(lease("you", 1)))]].concat(), LeaseAction::Wait, false);
    }

    #[test]
    fn only_a_lease_whose_right_has_begun_may_be_given_back() {
        let (now, terms) = (Instant::now(), LeaseTimes::new(TERM));
        let mut candidate = LeaseCandidate::default();
        candidate.evaluate_lease("me", None, now, TERM);
        candidate.wrote(now, now, terms);
        assert!(!candidate.may_give_back(now) && candidate.may_give_back(now + TERM));
    }
}
