//! Reconciles one object with the external API: reads each of its resources, decides what to do, and does it. Nothing
//! is written because of a list alone: every write follows a read of that same resource in the same run.
//!
//! **Invariant:** the process may die between any two calls. The next run finds whatever is left, because the inventory
//! is written before a resource is created and the finalizer is removed after the last resource
//! (`tests/it/world/crashes`).

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use homeostat_core::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Resource;

use super::call_limiter::CallStopped;
use super::decide_step::{ClaimForObject, OwnershipClaim, ResourceSituation, SeenResource, decide};
use super::resource_memory::{Agreement, Sighting};
use super::resource_outcomes::{
    CONTESTED, DRIFTED, REFUSED, ResourceOutcome, ResourceOutcomes, RunSummary, SETTLING, SYNCED,
    UNAVAILABLE, in_sync, out_of_sync,
};
use super::take_steps::ExternalResource;
use super::update_attempts::DifferencePrint;
use super::world_parts::{WorldParts, fingerprint, is_owner};
use super::world_trait::World;
use crate::action::Action;
use crate::context::Context;
use crate::events::Severity;
use crate::fault::{Fault, Result};
use crate::kind::object::Object;
use crate::kind::{key_of, revision_of};

/// The maximum time for which an object is parked; the end of the outage usually requeues it long before.
const PARKED_MAX: Duration = Duration::from_secs(3600);

/// One run for one object.
pub(super) struct WorldRun<W: World> {
    pub(super) parts: Arc<WorldParts<W>>,
    pub(super) cx: Context<W::Kind>,
    pub(super) object: Arc<W::Kind>,
    pub(super) key: Key,
    pub(super) is_cleanup: bool,
}

/// The state known at the beginning of the run.
struct RunStart<'a, W: World> {
    wanted: &'a BTreeMap<String, W::Want>,
    inventory: BTreeMap<String, Duration>,
    seen_before: Sighting,
    was_synced: bool,
}

pub(super) type Outcome = std::result::Result<ResourceOutcome, CallStopped>;

impl<W: World> WorldRun<W> {
    pub(super) fn new(parts: Arc<WorldParts<W>>, object: Arc<W::Kind>, cx: Context<W::Kind>) -> Self {
        let (key, is_cleanup) = (key_of(&*object), object.meta().deletion_timestamp.is_some());
        Self { parts, cx, object, key, is_cleanup }
    }

    /// Brings the external resources in line with the object's spec. A panic in the world's code counts as this
    /// object's failure, and its status must not continue to report that all is well.
    pub(super) async fn reconcile(self) -> Result<Action> {
        let cx = self.cx.clone();
        AssertUnwindSafe(self.bring_about()).catch_unwind().await.unwrap_or_else(|panic| {
            let fault = Fault::from_panic(&*panic);
            cx.condition(out_of_sync("Panicked", fault.chain()));
            Err(fault)
        })
    }

    async fn bring_about(self) -> Result<Action> {
        let since = self.parts.memory.doubts();
        let wanted = self.parts.wanted(&self.object).inspect_err(|fault| {
            self.cx.condition(out_of_sync("Invalid", fault.chain()));
        })?;
        let print = fingerprint(&wanted);
        let inventory = self.parts.inventory(&self.object);
        let is_tidy = inventory.keys().all(|name| wanted.contains_key(name));
        if is_tidy && self.parts.memory.is_certain(&self.key, print) {
            self.parts.clear_all_lasting(&self.object).await?;
            self.cx.condition(in_sync());
            return Ok(Action::await_change());
        }
        let was_synced = self.parts.memory.agreed(&self.key, print) || says_synced(&*self.object);
        let seen_before = self.parts.memory.seen(&self.key);
        let tally = self.round(RunStart { wanted: &wanted, inventory, seen_before, was_synced }).await;
        let agreement = Agreement { print, count: wanted.len(), revision: revision_of(&*self.object) };
        self.conclude(tally, agreement, since)
    }

    /// Deletes all external resources of the object.
    pub(super) async fn cleanup(self) -> Result<Action> {
        // An invalid object still has the resources in its inventory.
        let wanted = self.parts.wanted(&self.object).unwrap_or_default();
        let inventory = self.parts.inventory(&self.object);
        let seen_before = self.parts.memory.seen(&self.key);
        let tally = self.round(RunStart { wanted: &wanted, inventory, seen_before, was_synced: false }).await;
        if let Some(condition) = tally.condition().filter(|condition| condition.status == "False") {
            self.cx.condition(condition);
        }
        match tally.sum().1 {
            RunSummary::Done => {
                self.parts.memory.forget(&self.key);
                Ok(Action::await_change())
            }
            RunSummary::Again(after) => Ok(Action::requeue(after)),
            RunSummary::Stuck => Ok(Action::requeue(self.parts.policy.poll)),
            RunSummary::Blocked => Ok(self.park()),
            RunSummary::Failed(stopped) => Err(stopped.into()),
        }
    }

    async fn round(&self, outset: RunStart<'_, W>) -> ResourceOutcomes {
        let names: BTreeSet<&String> =
            outset.wanted.keys().chain(outset.inventory.keys()).chain(&outset.seen_before.names).collect();
        let mut tally = ResourceOutcomes::default();
        for name in names {
            tally.add_outcome(name, self.reconcile_resource(name, &outset).await);
            if tally.is_blocked() {
                break;
            }
        }
        tally
    }

    fn conclude(&self, tally: ResourceOutcomes, agreement: Agreement, since: u64) -> Result<Action> {
        if let Some(condition) = tally.condition() {
            if condition.reason == "Conflict" {
                self.cx.event(Severity::Warning, "Conflict", condition.message.clone());
            }
            if !self.says_more_already(&condition) {
                self.cx.condition(condition);
            }
        }
        let (seen, sum) = tally.sum();
        if matches!(sum, RunSummary::Done) {
            self.parts.memory.agree(self.key.clone(), agreement, seen, since);
            return Ok(Action::await_change());
        }
        self.parts.memory.disagree(self.key.clone(), seen);
        match sum {
            RunSummary::Done => unreachable!("returned above"),
            RunSummary::Again(after) => Ok(Action::requeue(after)),
            RunSummary::Stuck => Ok(Action::requeue(self.parts.policy.poll)),
            RunSummary::Blocked => Ok(self.park()),
            // The object keeps its own backoff whatever the cause is; if the API is down, the retry is refused.
            RunSummary::Failed(stopped) => Err(stopped.into()),
        }
    }

    /// Returns whether the status already reports something more useful about this generation than this condition.
    fn says_more_already(&self, condition: &Condition) -> bool {
        match condition.reason.as_str() {
            // The fact that everything was in sync before an outage distinguishes drift from a first check, even after
            // a restart.
            UNAVAILABLE => says_synced(&*self.object),
            // While we wait to send the last write again, people need to know why it was refused.
            SETTLING => synced_of(&*self.object).is_some_and(|said| said.reason == REFUSED),
            _ => false,
        }
    }

    /// Waits until the API responds. If it has responded since the call was refused, nothing else would queue the
    /// object again. The refused call does not count as a success, and must not clear an earlier failure.
    fn park(&self) -> Action {
        self.cx.run().withhold_verdict();
        self.parts.memory.park(self.key.clone());
        Action::requeue(if self.parts.limiter.is_closed() { Duration::ZERO } else { PARKED_MAX })
    }

    /// Reconciles one resource: reads it, decides, and acts.
    async fn reconcile_resource(&self, name: &str, outset: &RunStart<'_, W>) -> Outcome {
        let parts = &self.parts;
        let want = outset.wanted.get(name);
        let have = parts.limiter.call(parts.world.get(name)).await?;
        let differences = match (want, &have) {
            (Some(want), Some(have)) => parts.world.diff(want, have),
            _ => vec![],
        };
        let seen = match &have {
            None => SeenResource::Absent,
            Some(have) => {
                let whose = self.whose(name, have, outset.inventory.contains_key(name)).await?;
                SeenResource::Present { whose, is_equal: want.is_some() && differences.is_empty() }
            }
        };
        let intent = outset.inventory.get(name).copied();
        let is_ours = matches!(
            &seen,
            SeenResource::Present { whose: ClaimForObject::Own | ClaimForObject::Common, .. }
        );
        let wish = self.object.meta().generation.unwrap_or_default();
        let print = DifferencePrint::new(wish, &differences, is_ours);
        let resource = ExternalResource { name, want, have: have.as_ref(), differences: &differences, print };
        let tried = parts.memory.tried(&self.key, name, print).or_else(|| self.resume(&resource));
        let situation = ResourceSituation {
            seen,
            is_wanted: want.is_some() && !self.is_cleanup,
            intent: intent.filter(|age| !outset.seen_before.is_since(name, *age)),
            was_synced: outset.was_synced,
            is_holder: parts.holds(&self.object, name).await?,
            tried,
        };
        let step = decide(situation, parts.policy.drift, parts.policy.visible_within);
        self.take_step(step, &resource).await
    }

    /// Returns the claim on the resource from the point of view of this object, which may have it in its inventory.
    async fn whose(
        &self,
        name: &str,
        have: &W::Have,
        is_listed: bool,
    ) -> std::result::Result<ClaimForObject, CallStopped> {
        let parts = &self.parts;
        let nobody = || ClaimForObject::Nobody { adopts: parts.policy.adopts(name, have) };
        Ok(match parts.claim(name, have) {
            // It is unknown whether an object that cannot be decoded desires the name, so its possible resource is not
            // taken.
            OwnershipClaim::Ours(None) if !is_listed && !parts.cache.quarantined().is_empty() => {
                ClaimForObject::Sibling("an object that does not decode, perhaps".to_owned())
            }
            OwnershipClaim::Ours(None) => ClaimForObject::Common,
            OwnershipClaim::Theirs(manager) => ClaimForObject::Foreign(manager),
            OwnershipClaim::Ours(Some(owner)) if is_owner(&*self.object, &owner) => ClaimForObject::Own,
            OwnershipClaim::Doubtful(owner) if is_owner(&*self.object, &owner) => ClaimForObject::Doubtful,
            OwnershipClaim::Ours(Some(owner)) | OwnershipClaim::Doubtful(owner)
                if parts.lives(&owner).await? =>
            {
                ClaimForObject::Sibling(owner.key.to_string())
            }
            OwnershipClaim::Ours(Some(_)) => ClaimForObject::Orphan,
            // The owner of the doubtful resource is gone, and it is unknown whether we created it.
            OwnershipClaim::Nobody | OwnershipClaim::Doubtful(_) => nobody(),
        })
    }
}

/// Returns whether the status says that this generation was in sync, or has drifted since. In that case a difference is
/// drift, even after a restart.
fn says_synced(object: &Object) -> bool {
    let is_so =
        |said: Condition| said.status == "True" || [DRIFTED, CONTESTED].contains(&said.reason.as_str());
    synced_of(object).is_some_and(is_so)
}

/// Returns the condition in the status for this generation.
fn synced_of(object: &Object) -> Option<Condition> {
    let generation = object.meta().generation?;
    let mut object = object.to_json().ok()?;
    let conditions: Vec<Condition> = serde_json::from_value(object["status"]["conditions"].take()).ok()?;
    let mut conditions = conditions.into_iter();
    conditions.find(|one| one.type_ == SYNCED && one.observed_generation == Some(generation))
}
