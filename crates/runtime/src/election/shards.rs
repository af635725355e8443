//! Sharding: every replica keeps a lease that says it lives; each shard belongs to the live replica that hashes
//! highest with it, so a replica that comes or goes moves only its own share.
//!
//! **Invariant:** a shard is acted upon only under its lease. One that should move is first taken out of the fence,
//! then drained, and only then given back; a replica that dies gives its shards up by not renewing. A shard whose
//! fence was closed for any reason is listed again when it opens, because its keys were forgotten meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use homeostat_core::Clock;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use super::holder::Holder;
use super::lease::Candidate;
use crate::error::Error;
use crate::fence::{Fence, Right, stable_hash};
use crate::manifests::object_name;

/// The part of an identity that chance gave it: host and process are for people, and would make runs of a test differ.
fn chance_of(identity: &str) -> &str {
    identity.rsplit('_').next().unwrap_or(identity)
}

/// The replica that should hold a shard.
pub(super) fn owner(members: &BTreeSet<String>, shard: u32) -> Option<&String> {
    members.iter().max_by_key(|member| stable_hash(&format!("{shard}/{}", chance_of(member))))
}

/// Terms without a sign of life after which the lease of a replica is removed: long enough that a machine that slept
/// or a partition is not taken for a death, and removing one wrongly only makes its owner write it anew.
const MEMBER_GONE_TERMS: u32 = 20;

/// Leases of dead replicas removed in one look, so that renewals never wait long for it.
const REMOVALS_MAX: usize = 4;

/// What one replica knows of the shards.
pub(super) struct Shards {
    count: u32,
    candidates: BTreeMap<String, Candidate>,
    held: BTreeMap<u32, Instant>,
    /// What the fence was told.
    published: BTreeMap<u32, Instant>,
}

/// What a look at the leases led to.
#[derive(Default)]
pub(super) struct Look {
    /// Shards to be drained and given back.
    pub(super) leaving: Vec<u32>,
    /// Why some were not looked at.
    pub(super) failed: Option<Error>,
}

type Leases = BTreeMap<String, Lease>;

impl Shards {
    pub(super) fn new(count: u32) -> Self {
        Self { count, candidates: BTreeMap::new(), held: BTreeMap::new(), published: BTreeMap::new() }
    }

    /// Renews our sign of life, takes the shards that are ours and free, drops those that are not ours. What was done
    /// before an error stays done.
    pub(super) async fn look(&mut self, holder: &Holder) -> Look {
        let mut look = Look::default();
        if let Err(error) = self.go_round(holder, &mut look).await {
            look.failed = Some(error);
        }
        look
    }

    async fn go_round(&mut self, holder: &Holder, look: &mut Look) -> Result<(), Error> {
        let own = member_name(holder);
        holder.look(&own, self.candidates.entry(own.clone()).or_default()).await?;
        let listed = holder.list().await?.into_iter();
        let leases: Leases = listed.filter_map(|lease| Some((lease.metadata.name.clone()?, lease))).collect();
        let (members, dead) = self.members(holder, &leases);
        for shard in 0..self.count {
            if owner(&members, shard) != Some(&holder.identity) {
                look.leaving.extend(self.held.remove(&shard).map(|_| shard));
                continue;
            }
            match self.bid(holder, shard, &leases).await {
                Ok(Some(until)) => drop(self.held.insert(shard, until)),
                Ok(None) => look.leaving.extend(self.held.remove(&shard).map(|_| shard)),
                // No server: asking for each shard would only take longer.
                Err(error @ Error::Transport { .. }) => return Err(error),
                Err(error) => look.failed = Some(error),
            }
        }
        for lease in dead {
            holder.remove_unchanged(lease).await?;
        }
        Ok(())
    }

    /// Looks at one shard. A lease that is not in the list may have lost its label: its name decides.
    async fn bid(&mut self, holder: &Holder, shard: u32, leases: &Leases) -> Result<Option<Instant>, Error> {
        let name = shard_name(holder, shard);
        let candidate = self.candidates.entry(name.clone()).or_default();
        let held = match leases.get(&name) {
            Some(lease) => holder.act(&name, Some(lease.clone()), candidate).await,
            None => holder.look(&name, candidate).await,
        };
        holder.tell_wait(&name, candidate);
        held
    }

    /// Tells the fence what is held; returns the shards it opens that were closed until now.
    pub(super) fn publish(&mut self, fence: &Fence, clock: Clock) -> Vec<u32> {
        fence.set(Right::Shards { count: self.count, held: self.held.clone() });
        let now = clock.instant();
        let before = std::mem::replace(&mut self.published, self.held.clone());
        let was_closed = |shard: &u32| before.get(shard).is_none_or(|end| *end <= now);
        let open = self.held.iter().filter(|(_, end)| **end > now).map(|(shard, _)| *shard);
        open.filter(was_closed).collect()
    }

    /// The replicas that live, by what we see of their leases, ourselves always; and leases of the long dead.
    fn members<'a>(&mut self, holder: &Holder, leases: &'a Leases) -> (BTreeSet<String>, Vec<&'a Lease>) {
        let (now, term) = (holder.clock.instant(), holder.terms.term);
        let (prefix, own) = (format!("{}-member-", holder.operator), member_name(holder));
        self.candidates
            .retain(|name, _| !name.starts_with(&prefix) || *name == own || leases.contains_key(name));
        let (mut members, mut dead) = (BTreeSet::from([holder.identity.clone()]), Vec::new());
        let others = leases.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        for (name, lease) in others.filter(|(name, _)| **name != own) {
            let spec = lease.spec.clone().unwrap_or_default();
            let candidate = self.candidates.entry(name.clone()).or_default();
            if candidate.is_alive(&spec, now, term) {
                members.extend(spec.holder_identity.filter(|identity| !identity.is_empty()));
            } else if candidate.unchanged_for(now) >= term * MEMBER_GONE_TERMS {
                dead.push(lease);
            }
        }
        dead.truncate(REMOVALS_MAX);
        (members, dead)
    }

    /// Gives these shards back. The first failure ends it: they expire by themselves, and a stop must not wait long.
    pub(super) async fn release(&mut self, holder: &Holder, shards: &[u32]) -> Result<(), Error> {
        for &shard in shards {
            let name = shard_name(holder, shard);
            holder.release(&name, self.candidates.entry(name.clone()).or_default()).await?;
        }
        Ok(())
    }

    /// Gives back everything.
    pub(super) async fn leave(&mut self, holder: &Holder) -> Result<(), Error> {
        let held: Vec<u32> = std::mem::take(&mut self.held).into_keys().collect();
        self.release(holder, &held).await?;
        holder.remove(&member_name(holder)).await
    }
}

pub(super) fn shard_name(holder: &Holder, shard: u32) -> String {
    format!("{}-shard-{shard}", holder.operator)
}

fn member_name(holder: &Holder) -> String {
    format!("{}-member-{}", holder.operator, object_name(&holder.identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_replica_takes_only_its_own_share() {
        let two = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        let three = BTreeSet::from(["a".to_owned(), "b".to_owned(), "c".to_owned()]);
        let mut moved = 0;
        for shard in 0..300 {
            let (before, after) = (owner(&two, shard).unwrap(), owner(&three, shard).unwrap());
            assert!(before == after || after == "c", "a shard moved between old replicas");
            moved += usize::from(before != after);
        }
        assert!((60..=140).contains(&moved), "{moved} of 300 moved to one of three");
    }
}
