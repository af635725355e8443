//! How many shards the keys are divided into. The replicas agree on one number, which may differ from this replica's
//! own setting: in a rollout that changes `.sharded(n)`, both settings exist for a while.
//!
//! The number is stored on a Lease of its own, created by the first replica. It changes when every live replica is
//! configured with the same other number. Each lease of a shard carries the number under which it was acquired.
//!
//! **Invariant:** a replica acts on a shard only after it has listed all leases, after writing the shard's own, and
//! found its number agreed on and no live lease with another number. Of two replicas that acquire shards under
//! different numbers, the one that lists later sees the other's lease. (The integration tests `handovers::*` show it.)

use k8s_openapi::api::coordination::v1::Lease;

/// The annotation with the number: agreed on, wanted (on a replica's own Lease) or held under (on a shard's lease).
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
    /// Returns the number to write, if it should change. `others` are the settings of the other live replicas; one
    /// without a setting accepts any.
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
