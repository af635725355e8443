//! Determines how many shards the keys are divided into. The replicas agree on one number, which may differ from this
//! replica's own setting: during a rollout that changes `.sharded(n)`, both settings exist for a while.
//!
//! The number is stored on a separate Lease, created by the first replica. It changes when every live replica is
//! configured with the same other number. Each shard's lease carries the number under which it was acquired.
//!
//! **Invariant:** a replica acts on a shard only after it has written the shard's lease, then listed all leases, and
//! found that its number is the agreed one and that no live lease has a different number. Of two replicas that acquire
//! shards under different numbers, the one that lists later sees the other's lease. (The integration tests
//! `handovers::*` demonstrate this.)

use k8s_openapi::api::coordination::v1::Lease;

/// The annotation that holds the agreed number, the number that a replica wants (on its own Lease), or the number under
/// which a shard is held (on the shard's lease).
pub(super) const COUNT_ANNOTATION: &str = "homeostat.dev/shards";

/// Returns the number on a lease.
pub(super) fn count_on(lease: &Lease) -> Option<u32> {
    let text = lease.metadata.annotations.as_ref()?.get(COUNT_ANNOTATION)?;
    text.parse().ok().filter(|count| *count > 0)
}

/// The numbers of shards that a replica knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardCounts {
    /// The number on the lease; `None` if it is missing or unreadable.
    pub(super) agreed: Option<u32>,
    /// The number under which this replica holds shards.
    pub(super) in_force: Option<u32>,
    /// The number this replica is configured with.
    pub(super) wanted: u32,
}

impl ShardCounts {
    /// Returns the number to write, if it should change. `others` are the settings of the other live replicas; a
    /// replica without a setting accepts any number.
    pub(super) fn proposal(self, others: impl IntoIterator<Item = Option<u32>>) -> Option<u32> {
        let Some(agreed) = self.agreed else { return Some(self.in_force.unwrap_or(self.wanted)) };
        let is_wanted_by_all = others.into_iter().all(|other| other == Some(self.wanted));
        (self.wanted != agreed && is_wanted_by_all).then_some(self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(agreed: Option<u32>, in_force: Option<u32>, others: &[Option<u32>], expected: Option<u32>) {
        let counts = ShardCounts { agreed, in_force, wanted: 7 };
        assert_eq!(counts.proposal(others.iter().copied()), expected, "{counts:?} {others:?}");
    }

    #[test]
    fn the_number_changes_when_everybody_wants_the_same_other_one() {
        check(Some(4), Some(4), &[], Some(7));
        check(Some(4), Some(4), &[Some(7), Some(7)], Some(7));
        check(Some(4), Some(4), &[Some(7), Some(4)], None);
        check(Some(4), Some(4), &[Some(7), None], None);
        check(Some(7), Some(4), &[Some(4)], None);
    }

    #[test]
    fn whoever_finds_no_number_writes_the_one_in_force_or_its_own() {
        check(None, Some(4), &[Some(7)], Some(4));
        check(None, None, &[Some(4)], Some(7));
    }

    #[test]
    fn a_number_that_nobody_can_read_is_none() {
        let lease = |text: &str| {
            let annotations = [(COUNT_ANNOTATION.to_owned(), text.to_owned())];
            let mut lease = Lease::default();
            lease.metadata.annotations = Some(annotations.into());
            count_on(&lease)
        };
        assert_eq!((lease("16"), lease("0"), lease("many"), lease("-1")), (Some(16), None, None, None));
        assert_eq!(count_on(&Lease::default()), None);
    }
}
