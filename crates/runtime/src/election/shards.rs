//! Divides the work into shards: every replica renews a Lease that shows it is alive, and each shard belongs to the
//! live replica with the highest hash for it, so a replica that joins or leaves moves only its own share.
//!
//! A shard that should move is closed first: no new work starts in it, running work may finish within the grace period
//! and is cancelled after that, and its lease is released only when nothing is running in it any more. Until then the
//! lease is renewed like any other. A replica that dies gives up its shards by not renewing.
//!
//! **Invariant:** a replica acts on a shard only under its lease, and under the agreed number of shards (see
//! `shard_count_agreement`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use super::lease_client::{LeaseClient, LeaseName};
use super::lease_rules::LeaseCandidate;
use super::shard_count_agreement::{ShardCounts, count_on};
use crate::error::Error;
use crate::fence::{Fence, HeldShard, StartedShards};
use crate::kind::object_name;
use crate::shard_assignment::stable_hash;

/// Returns the random part of an identity: host and process are for people, and would make test runs differ.
fn chance_of(identity: &str) -> &str {
    identity.rsplit('_').next().unwrap_or(identity)
}

/// Returns the replica that should hold a shard.
fn owner_of_shard(members: &Members, shard: u32) -> Option<&String> {
    members.keys().max_by_key(|member| stable_hash(&format!("{shard}/{}", chance_of(member))))
}

/// The number of terms without a renewal after which a replica's lease is removed: long enough that a suspended machine
/// or a network partition is not mistaken for a dead replica. If a lease is removed by mistake, its owner simply writes
/// it again.
const MEMBER_GONE_TERMS: u32 = 20;

/// The number of dead replicas' leases that are removed at a time, so that renewals never wait long.
const REMOVALS_MAX: usize = 4;

/// The number of shards released at a time, each with two requests, so that renewals never wait long.
const RELEASES_MAX: usize = 4;

/// One replica's view of the shards.
pub(super) struct Shards {
    /// The number of shards it is configured with.
    wanted: u32,
    /// The number under which it holds shards; `None` before the first number and between two numbers.
    in_force: Option<u32>,
    candidates: BTreeMap<String, LeaseCandidate>,
    /// The leases held, and their expiry times.
    held: BTreeMap<u32, Instant>,
    /// The held shards on which it may act: no lease with another number was live when they were checked.
    proven: BTreeSet<u32>,
    /// The shards to be handed over, and when the work in them is cancelled.
    leaving: BTreeMap<u32, Instant>,
    /// How long work in a shard that is to be handed over may take to finish.
    grace: Duration,
}

type Leases = BTreeMap<String, Lease>;

/// The live replicas, and the number of shards each is configured with.
type Members = BTreeMap<String, Option<u32>>;

/// The division of the keys into shards among the replicas.
#[derive(Clone, Copy)]
struct ShardDivision<'a> {
    count: u32,
    members: &'a Members,
}

/// One shard, and the total number of shards.
#[derive(Clone, Copy)]
struct Shard {
    number: u32,
    count: u32,
}

impl Shards {
    pub(super) fn new(wanted: u32, grace: Duration) -> Self {
        Self {
            wanted,
            in_force: None,
            candidates: BTreeMap::new(),
            held: BTreeMap::new(),
            proven: BTreeSet::new(),
            leaving: BTreeMap::new(),
            grace,
        }
    }

    /// Renews our own lease and those we hold, acquires free shards that should be ours, and finds out which ones are
    /// to be handed over. An error does not undo anything done before it.
    pub(super) async fn renew_and_bid(&mut self, holder: &LeaseClient) -> Result<(), Error> {
        let own = member_name(holder);
        let sign = LeaseName { name: &own, count: Some(self.wanted) };
        holder.acquire_or_renew(sign, self.candidates.entry(own.clone()).or_default()).await?;
        let leases = list(holder).await?;
        let (members, dead) = self.members(holder, &leases);
        let Some(agreed) = self.agree(holder, &leases, &members).await? else { return Ok(()) };
        if self.held.is_empty() {
            self.in_force = Some(agreed);
        }
        let failed =
            self.bid_for_all(holder, &leases, ShardDivision { count: agreed, members: &members }).await;
        self.prove(holder).await?;
        for lease in dead {
            holder.remove_unchanged(lease).await?;
        }
        failed
    }

    /// Returns the agreed number of shards, after proposing ours; `None` while another replica proposes its own and we
    /// hold nothing.
    async fn agree(
        &self,
        holder: &LeaseClient,
        leases: &Leases,
        members: &Members,
    ) -> Result<Option<u32>, Error> {
        let name = agreement_name(holder);
        let lease = leases.get(&name);
        let counts =
            ShardCounts { agreed: lease.and_then(count_on), in_force: self.in_force, wanted: self.wanted };
        let others = members.iter().filter(|(member, _)| **member != holder.identity);
        let Some(proposal) = counts.proposal(others.map(|(_, wanted)| *wanted)) else {
            return Ok(counts.agreed);
        };
        if let Some(agreed) = counts.agreed {
            tracing::info!(
                from = agreed,
                to = proposal,
                "all replicas ask for another number of shards; changing to it"
            );
        }
        match holder.write_count(&name, lease.cloned(), proposal).await {
            Ok(()) => Ok(Some(proposal)),
            // The next read shows the number.
            Err(error) if error.is_conflict() => Ok(self.in_force),
            Err(error) => Err(error),
        }
    }

    /// Checks every shard that is or should be ours. A failure with one shard does not affect the others.
    async fn bid_for_all(
        &mut self,
        holder: &LeaseClient,
        leases: &Leases,
        agreed: ShardDivision<'_>,
    ) -> Result<(), Error> {
        let Some(count) = self.in_force else { return Ok(()) };
        let mut outcome = Ok(());
        for shard in 0..count {
            let is_ours =
                count == agreed.count && owner_of_shard(agreed.members, shard) == Some(&holder.identity);
            if is_ours {
                self.leaving.remove(&shard);
            } else if self.held.contains_key(&shard) {
                let end = holder.clock.instant() + self.grace;
                self.leaving.entry(shard).or_insert(end);
            } else {
                continue;
            }
            match self.bid(holder, Shard { number: shard, count }, leases).await {
                Ok(Some(until)) => _ = self.held.insert(shard, until),
                Ok(None) => self.drop_shard(shard),
                // The server does not respond: asking for each shard would only take longer.
                Err(error @ Error::Transport { .. }) => return Err(error),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Checks one shard. A lease that is not in the list may have lost its label, so it is read by name.
    async fn bid(
        &mut self,
        holder: &LeaseClient,
        Shard { number: shard, count }: Shard,
        leases: &Leases,
    ) -> Result<Option<Instant>, Error> {
        let name = shard_name(holder, shard);
        let candidate = self.candidates.entry(name.clone()).or_default();
        // After our lease expired, another replica may have held it.
        if candidate.right(holder.clock.instant()).is_none() {
            self.proven.remove(&shard);
        }
        let lease = LeaseName { name: &name, count: Some(count) };
        let held = match leases.get(&name) {
            Some(found) => holder.acquire_or_renew_found(lease, Some(found.clone()), candidate).await,
            None => holder.acquire_or_renew(lease, candidate).await,
        };
        holder.report_wait(&name, candidate);
        held
    }

    /// Checks which of the acquired shards we may act on.
    async fn prove(&mut self, holder: &LeaseClient) -> Result<(), Error> {
        let Some(count) = self.in_force else { return Ok(()) };
        if self.held.keys().all(|shard| self.proven.contains(shard)) {
            return Ok(());
        }
        let leases = list(holder).await?;
        let is_agreed = leases.get(&agreement_name(holder)).and_then(count_on) == Some(count);
        if is_agreed && !self.sees_another_count(holder, &leases, count) {
            self.proven.extend(self.held.keys());
        }
        Ok(())
    }

    /// Returns whether a shard has a live Lease that was acquired under a different number of shards, or had one that
    /// vanished and that its holder may write again.
    fn sees_another_count(&mut self, holder: &LeaseClient, leases: &Leases, count: u32) -> bool {
        let (now, term) = (holder.clock.instant(), holder.terms.term);
        let prefix = format!("{}-shard-", holder.operator);
        let mut is_seen = false;
        for (name, lease) in with_prefix(leases, &prefix) {
            let spec = lease.spec.clone().unwrap_or_default();
            let is_own = spec.holder_identity.as_deref() == Some(holder.identity.as_str());
            let candidate = self.candidates.entry(name.clone()).or_default();
            is_seen |= !is_own && candidate.is_in_use(&spec, now, term) && count_on(lease) != Some(count);
        }
        let missing = self
            .candidates
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix) && !leases.contains_key(*name));
        is_seen || missing.into_iter().any(|(_, candidate)| candidate.may_return(now, term))
    }

    /// Reports to the fence the shards that we may act on; returns those that start.
    pub(super) fn publish(&self, fence: &Fence) -> StartedShards {
        let Some(count) = self.in_force else { return StartedShards::default() };
        let proven = self.held.iter().filter(|(shard, _)| self.proven.contains(shard));
        let rights = proven.map(|(&shard, &until)| {
            (shard, HeldShard { until, is_closing: self.leaving.contains_key(&shard) })
        });
        fence.set_shards(count, &rights.collect())
    }

    /// Returns some of the shards to be handed over in which nothing is running any more. Cancels work that has used up
    /// its time.
    pub(super) fn vacated(&self, fence: &Fence, now: Instant) -> Vec<u32> {
        for (&shard, _) in self.leaving.iter().filter(|(_, end)| **end <= now) {
            fence.end_shard(shard);
        }
        let vacated = self.leaving.keys().copied().filter(|&shard| fence.active_in(shard) == 0);
        vacated.take(RELEASES_MAX).collect()
    }

    /// Returns whether there are shards to be handed over.
    pub(super) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Returns the live replicas according to their leases, always including this one, and the leases of replicas that
    /// died long ago.
    fn members<'a>(&mut self, holder: &LeaseClient, leases: &'a Leases) -> (Members, Vec<&'a Lease>) {
        let (now, term) = (holder.clock.instant(), holder.terms.term);
        let (prefix, own) = (format!("{}-member-", holder.operator), member_name(holder));
        self.candidates
            .retain(|name, _| !name.starts_with(&prefix) || *name == own || leases.contains_key(name));
        let (mut members, mut dead) =
            (Members::from([(holder.identity.clone(), Some(self.wanted))]), Vec::new());
        for (name, lease) in with_prefix(leases, &prefix).filter(|(name, _)| **name != own) {
            let spec = lease.spec.clone().unwrap_or_default();
            let candidate = self.candidates.entry(name.clone()).or_default();
            if candidate.is_alive(&spec, now, term) {
                let identity = spec.holder_identity.filter(|identity| !identity.is_empty());
                members.extend(identity.map(|identity| (identity, count_on(lease))));
            } else if candidate.unchanged_for(now) >= term * MEMBER_GONE_TERMS {
                dead.push(lease);
            }
        }
        dead.truncate(REMOVALS_MAX);
        (members, dead)
    }

    fn drop_shard(&mut self, shard: u32) {
        self.held.remove(&shard);
        self.proven.remove(&shard);
        self.leaving.remove(&shard);
    }

    /// Releases these shards. Stops at the first failure: the remaining leases expire, and a shutdown must not wait
    /// long.
    pub(super) async fn release(&mut self, holder: &LeaseClient, shards: &[u32]) -> Result<(), Error> {
        for shard in shards {
            self.drop_shard(*shard);
        }
        for &shard in shards {
            let name = shard_name(holder, shard);
            holder.release(&name, self.candidates.entry(name.clone()).or_default()).await?;
        }
        Ok(())
    }

    /// Releases everything.
    pub(super) async fn leave(&mut self, holder: &LeaseClient) -> Result<(), Error> {
        let held: Vec<u32> = self.held.keys().copied().collect();
        self.release(holder, &held).await?;
        holder.remove(&member_name(holder)).await
    }
}

async fn list(holder: &LeaseClient) -> Result<Leases, Error> {
    let listed = holder.list().await?.into_iter();
    Ok(listed.filter_map(|lease| Some((lease.metadata.name.clone()?, lease))).collect())
}

fn with_prefix<'a, 'p>(
    leases: &'a Leases,
    prefix: &'p str,
) -> impl Iterator<Item = (&'a String, &'a Lease)> + use<'a, 'p> {
    leases.range(prefix.to_owned()..).take_while(move |(name, _)| name.starts_with(prefix))
}

pub(super) fn shard_name(holder: &LeaseClient, shard: u32) -> String {
    format!("{}-shard-{shard}", holder.operator)
}

fn agreement_name(holder: &LeaseClient) -> String {
    format!("{}-shards", holder.operator)
}

fn member_name(holder: &LeaseClient) -> String {
    format!("{}-member-{}", holder.operator, object_name(&holder.identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_replica_takes_only_its_own_share() {
        let members =
            |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), None)).collect::<Members>();
        let (two, three) = (members(&["a", "b"]), members(&["a", "b", "c"]));
        let mut moved = 0;
        for shard in 0..300 {
            let (before, after) =
                (owner_of_shard(&two, shard).unwrap(), owner_of_shard(&three, shard).unwrap());
            assert!(before == after || after == "c", "a shard moved between old replicas");
            moved += usize::from(before != after);
        }
        assert!((60..=140).contains(&moved), "{moved} of 300 moved to one of three");
    }
}
