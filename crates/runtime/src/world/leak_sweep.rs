//! Deletes leaked resources at the end of a pass, as far as `leak_suspects` allows, and only after a last check of the
//! object that should own the resource (on the server, not in the cache) and of the resource itself.

use homeostat_core::journal::Verb;
use homeostat_core::{FieldDiff, Key};
use tokio::time::Instant;

use super::call_limiter::CallStopped;
use super::decide_step::Owner;
use super::drift_and_leak_scan::DriftAndLeakScan;
use super::leak_suspects::Suspicion;
use super::pass_result::ResourceFinding;
use super::world_parts::{OutsideWrite, WorldParts};
use super::world_trait::World;
use crate::error::Error;
use crate::fence::FenceAnswer;
use crate::kind::key;

impl<W: World> DriftAndLeakScan<W> {
    /// Deletes the leaks that are due. Returns how many were deleted, and why others were not.
    pub(super) async fn sweep(&mut self, owned: usize) -> (usize, Option<String>) {
        let verdict = self.leaks.deletable_suspects(&self.parts.policy.sweep, owned, Instant::now());
        if verdict.due.is_empty() {
            return (0, verdict.withheld);
        }
        if !self.parts.is_fresh() {
            return (0, Some("the cache is not in step with the server".to_owned()));
        }
        let (mut deleted, mut withheld) = (0, verdict.withheld);
        for (name, suspicion) in verdict.due {
            match self.parts.remove(&name, &suspicion).await {
                Ok(LeakRemoval::Deleted) => deleted += 1,
                Ok(LeakRemoval::Spared) => {}
                Ok(LeakRemoval::Later(why)) => {
                    withheld = Some(why.to_owned());
                    break;
                }
                Err(stopped) => {
                    withheld = Some(crate::fault::Fault::from(stopped).to_string());
                    break;
                }
            }
            self.leaks.remove(&name);
        }
        if let Some(why) = &withheld {
            tracing::warn!(world = W::NAME, why, "leaks were left for later");
        }
        (deleted, withheld)
    }
}

/// The result of deleting a leak.
enum LeakRemoval {
    Deleted,
    /// The last check showed that it is not a leak, or that it is gone.
    Spared,
    Later(&'static str),
}

impl<W: World> WorldParts<W> {
    async fn remove(&self, name: &str, suspicion: &Suspicion) -> Result<LeakRemoval, CallStopped> {
        let object = match suspicion {
            Suspicion::OwnerGone(owner) => owner.key.clone(),
            Suspicion::Unwanted | Suspicion::Stray => Self::target(name),
        };
        let FenceAnswer::Granted(permit) = self.shared.fence.enter(&object) else {
            return Ok(LeakRemoval::Spared);
        };
        let removed = permit.run(self.remove_now(&object, name, suspicion)).await;
        removed.unwrap_or(Ok(LeakRemoval::Later("leadership was lost")))
    }

    async fn remove_now(
        &self,
        object: &Key,
        name: &str,
        suspicion: &Suspicion,
    ) -> Result<LeakRemoval, CallStopped> {
        if let Suspicion::OwnerGone(owner) = suspicion
            && self.lives(owner).await?
        {
            return Ok(LeakRemoval::Spared);
        }
        let Some(have) = self.limiter.call(self.world.get(name)).await? else {
            self.forget_gone(name, suspicion).await?;
            return Ok(LeakRemoval::Spared);
        };
        if self.classify(name, &have) != ResourceFinding::Leak(suspicion.clone()) {
            return Ok(LeakRemoval::Spared);
        }
        if self.count_deletion().is_err() {
            return Ok(LeakRemoval::Later("the limit of deletions per minute was reached"));
        }
        let write = OutsideWrite { object, verb: Verb::Delete, name, diff: FieldDiff::default() };
        self.write(write, self.world.delete(name, &have)).await?;
        tracing::info!(world = W::NAME, name, ?suspicion, "a leak was deleted");
        self.forget_gone(name, suspicion).await?;
        Ok(LeakRemoval::Deleted)
    }

    /// Removes the record of a resource that is gone, if the object it belonged to is gone as well.
    async fn forget_gone(&self, name: &str, suspicion: &Suspicion) -> Result<(), Error> {
        match suspicion {
            Suspicion::OwnerGone(owner) => self.forget_record(owner, name).await,
            Suspicion::Unwanted | Suspicion::Stray => Ok(()),
        }
    }

    /// Returns the resources whose record names an object that is gone.
    pub(super) fn dangling(&self) -> Vec<(String, Suspicion)> {
        let Some(records) = &self.records else { return vec![] };
        let all = records.cache.list();
        let ours = all.iter().filter(|record| {
            record.spec.manager == self.manager() && record.spec.world == W::NAME && record.spec.made
        });
        let owners = ours.map(|record| {
            let spec = &record.spec;
            let key = key::<W::Kind>(&spec.owner_namespace, &spec.owner);
            (spec.thing.clone(), Owner { key, uid: spec.owner_uid.clone() })
        });
        owners
            .filter(|(_, owner)| self.is_missing(owner) && self.is_in_scope(&owner.key))
            .filter(|(resource, _)| self.claimants(resource).is_empty())
            .map(|(resource, owner)| (resource, Suspicion::OwnerGone(owner)))
            .collect()
    }
}
