//! Sharding: every replica keeps a lease that says it lives; each shard belongs to the live replica that hashes
//! highest with it, so a replica that comes or goes moves only its own share.
//!
//! **Invariant:** a shard is acted upon only under its lease. One that should move is first taken out of the fence,
//! then drained, and only then given back; a replica that dies gives its shards up by not renewing.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use super::holder::Holder;
use super::lease::Candidate;
use crate::error::Error;
use crate::fence::{Right, stable_hash};

/// The replica that should hold a shard.
pub(super) fn owner(members: &BTreeSet<String>, shard: u32) -> Option<&String> {
    members.iter().max_by_key(|member| stable_hash(&format!("{shard}/{member}")))
}

/// What one replica knows of the shards.
pub(super) struct Shards {
    count: u32,
    candidates: BTreeMap<String, Candidate>,
    held: BTreeMap<u32, Instant>,
}

/// What a look at the leases led to.
pub(super) struct Look {
    /// The right from now on.
    pub(super) right: Right,
    /// Shards that came to us.
    pub(super) gained: Vec<u32>,
    /// Shards to be drained and given back.
    pub(super) leaving: Vec<u32>,
}

impl Shards {
    pub(super) fn new(count: u32) -> Self {
        Self { count, candidates: BTreeMap::new(), held: BTreeMap::new() }
    }

    /// Renews our sign of life, takes the shards that are ours and free, drops those that are not ours.
    pub(super) async fn look(&mut self, holder: &Holder) -> Result<Look, Error> {
        let own = member_name(holder);
        holder.look(&own, self.candidates.entry(own.clone()).or_default()).await?;
        let leases: BTreeMap<String, Lease> = holder
            .list()
            .await?
            .into_iter()
            .filter_map(|lease| Some((lease.metadata.name.clone()?, lease)))
            .collect();
        let members = self.members(holder, &leases);
        let (mut gained, mut leaving) = (Vec::new(), Vec::new());
        for shard in 0..self.count {
            if owner(&members, shard) != Some(&holder.identity) {
                leaving.extend(self.held.remove(&shard).map(|_| shard));
                continue;
            }
            let name = shard_name(holder, shard);
            let candidate = self.candidates.entry(name.clone()).or_default();
            match holder.act(&name, leases.get(&name).cloned(), candidate).await? {
                Some(until) => gained.extend(self.held.insert(shard, until).is_none().then_some(shard)),
                None => leaving.extend(self.held.remove(&shard).map(|_| shard)),
            }
        }
        let right = Right::Shards { count: self.count, held: self.held.clone() };
        Ok(Look { right, gained, leaving })
    }

    /// The replicas that live, by what we see of their leases; ourselves always.
    fn members(&mut self, holder: &Holder, leases: &BTreeMap<String, Lease>) -> BTreeSet<String> {
        let now = holder.clock.instant();
        let prefix = format!("{}-member-", holder.operator);
        let mut members = BTreeSet::from([holder.identity.clone()]);
        for (name, lease) in leases.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix))
        {
            let Some(spec) = &lease.spec else { continue };
            let Some(identity) = spec.holder_identity.clone().filter(|identity| !identity.is_empty()) else {
                continue;
            };
            if self.candidates.entry(name.clone()).or_default().is_alive(spec, now) {
                members.insert(identity);
            }
        }
        members
    }

    /// Gives back everything.
    pub(super) async fn leave(&mut self, holder: &Holder) {
        for shard in std::mem::take(&mut self.held).into_keys() {
            if let Err(error) = holder.release(&shard_name(holder, shard)).await {
                tracing::debug!(%error, shard, "shard not given back; it expires by itself");
            }
        }
        let _ = holder.remove(&member_name(holder)).await;
    }
}

pub(super) fn shard_name(holder: &Holder, shard: u32) -> String {
    format!("{}-shard-{shard}", holder.operator)
}

fn member_name(holder: &Holder) -> String {
    format!("{}-member-{}", holder.operator, holder.identity)
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
