//! The shared state of one world consists of the API behind its limiter, the policy, the caches and the resource
//! memory. Reconciles and full passes share it. It knows which objects desire a resource.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_core::journal::{Entry, Source, Verb, WatchState, WriteOutcome};
use homeostat_core::{FieldDiff, Key};
use kube::Resource;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::call_limiter::{CallLimiter, CallStopped};
use super::decide_step::Owner;
use super::leak_suspects::DeletionPace;
use super::outside_record::Records;
use super::owner_mark::Mark;
use super::pass_history::PassHistory;
use super::resource_memory::ResourceMemory;
use super::world_policy::{Ownership, WorldPolicy};
use super::world_trait::{Answer, World};
use crate::cache::{Cache, Index};
use crate::error::Error;
use crate::fault::{Fault, Result};
use crate::kind::{info, key_of};
use crate::shared::OperatorShared;

/// One world and everything known about it.
pub(super) struct WorldParts<W: World> {
    pub(super) world: Arc<W>,
    pub(super) policy: WorldPolicy<W::Have>,
    pub(super) limiter: CallLimiter,
    pub(super) memory: ResourceMemory,
    pub(super) shared: Arc<OperatorShared>,
    pub(super) source: Source,
    pub(super) cache: Cache<W::Kind>,
    pub(super) records: Option<Records>,
    /// Requests a full pass.
    pub(super) wake: Notify,
    pub(super) passes: PassHistory,
    wants: Index<W::Kind, String>,
    pace: Mutex<DeletionPace>,
}

impl<W: World> WorldParts<W> {
    pub(super) fn new(
        world: W,
        policy: WorldPolicy<W::Have>,
        name: &str,
        shared: &Arc<OperatorShared>,
    ) -> Self {
        let world = Arc::new(world);
        let cache = Cache::from_erased(shared.caches.declare(info::<W::Kind>(), &shared.scope));
        let manager = policy.identity.clone().unwrap_or_else(|| shared.name.to_string());
        let records = (policy.ownership == Ownership::Records)
            .then(|| Records::declare(&shared.caches, &shared.scope, &manager, W::NAME));
        let (wisher, prefix) = (world.clone(), prefix_of(&policy.ownership).to_owned());
        let wants = cache.index(move |object: &W::Kind| {
            let names = want(&*wisher, object).unwrap_or_default().into_keys();
            names.map(|name| format!("{prefix}{name}")).collect::<Vec<_>>()
        });
        Self {
            world,
            limiter: CallLimiter::new(policy.limits),
            memory: ResourceMemory::new(policy.visible_within),
            policy: WorldPolicy { identity: Some(manager), ..policy },
            shared: shared.clone(),
            source: name.into(),
            cache,
            records,
            wake: Notify::new(),
            passes: PassHistory::new(),
            wants,
            pace: Mutex::default(),
        }
    }

    /// Returns our identity in marks and records.
    pub(super) fn manager(&self) -> &str {
        self.policy.identity.as_deref().unwrap_or_default()
    }

    pub(super) fn mark(&self, object: &W::Kind) -> Mark {
        Mark::for_object(self.manager(), object)
    }

    /// Returns the resources that the object desires, by their external names.
    pub(super) fn wanted(&self, object: &W::Kind) -> Result<BTreeMap<String, W::Want>> {
        let wanted = want(&*self.world, object)?;
        let prefix = prefix_of(&self.policy.ownership);
        if prefix.is_empty() {
            return Ok(wanted);
        }
        Ok(wanted.into_iter().map(|(name, want)| (format!("{prefix}{name}"), want)).collect())
    }

    /// Returns the objects that desire a resource with this name and are not being deleted; the first of them holds the
    /// name.
    pub(super) fn claimants(&self, name: &str) -> Vec<(Key, Arc<W::Kind>)> {
        let mut found = self.wants.entries(&name.to_owned());
        found.retain(|(_, object)| object.meta().deletion_timestamp.is_none());
        // Sorted by age, so that a newer object never takes a name away from the object that has it.
        found.sort_by_key(|(_, object)| object.meta().creation_timestamp.as_ref().map(|time| time.0));
        found
    }

    /// Returns the keys of all objects that desire a resource with this name, including those being deleted.
    pub(super) fn objects_wanting(&self, name: &str) -> Vec<Key> {
        self.wants.keys(&name.to_owned())
    }

    /// Returns whether we watch the objects of this key's namespace at all.
    pub(super) fn is_in_scope(&self, key: &Key) -> bool {
        let namespace = self.shared.scope.namespace.as_deref();
        namespace.is_none_or(|namespace| key.namespace().is_empty() || namespace == key.namespace())
    }

    /// Returns whether the caches are up to date with the server.
    pub(super) fn is_fresh(&self) -> bool {
        let records = self.records.as_ref().map(|records| records.cache.freshness());
        let all = [Some(self.cache.freshness()), records];
        all.iter().flatten().all(|cache| cache.is_synced && cache.state == WatchState::Fresh)
    }

    /// Counts an automatic deletion against the limit per minute, or returns how long to wait until one is allowed.
    pub(super) fn count_deletion(&self) -> std::result::Result<(), Duration> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.take(self.policy.sweep.per_minute, Instant::now())
    }

    /// Refuses to act for an object that this process does not lead.
    pub(super) fn refuse_if_deposed(
        &self,
        object: &Key,
        verb: Verb,
        target: &Key,
    ) -> std::result::Result<(), Error> {
        let checked = self.shared.fence.refuse_if_deposed(object, target);
        checked.inspect_err(|_| self.record_write(object, verb, target, WriteOutcome::Fenced))
    }

    /// Sends an external write for this object, if this process still leads it once all waiting is over.
    pub(super) async fn write(
        &self,
        OutsideWrite { object, verb, name, diff }: OutsideWrite<'_>,
        call: impl Future<Output = Answer<()>>,
    ) -> std::result::Result<(), CallStopped> {
        let target = Self::target(name);
        let check_leadership = || self.refuse_if_deposed(object, verb, &target).map_err(CallStopped::Cluster);
        let answer = self.limiter.write(check_leadership, call).await;
        self.record_result(object, verb, (&target, diff), answer)
    }

    /// Returns the key of the resource in the journal.
    pub(super) fn target(name: &str) -> Key {
        Key::new("outside", W::NAME, "", &name.replace('/', ":"))
    }

    pub(super) fn record_write(&self, object: &Key, verb: Verb, target: &Key, outcome: WriteOutcome) {
        self.note_diff(object, verb, target, outcome, FieldDiff::default());
    }

    fn note_diff(&self, object: &Key, verb: Verb, target: &Key, outcome: WriteOutcome, diff: FieldDiff) {
        let (object, target) = (object.clone(), target.clone());
        self.shared.journal.record(&self.source, Entry::Wrote { object, verb, target, outcome, diff });
    }

    /// Records the result of an external write.
    fn record_result(
        &self,
        object: &Key,
        verb: Verb,
        (target, diff): (&Key, FieldDiff),
        answer: std::result::Result<(), CallStopped>,
    ) -> std::result::Result<(), CallStopped> {
        match &answer {
            Ok(()) => self.note_diff(object, verb, target, WriteOutcome::Done { revision: None }, diff),
            Err(CallStopped::Failed(failure)) => {
                let outcome = WriteOutcome::Failed { error: failure.to_string() };
                self.note_diff(object, verb, target, outcome, diff);
            }
            Err(CallStopped::Blocked(_) | CallStopped::Cluster(_)) => {}
        }
        answer
    }
}

/// An external write: its object, verb and resource.
pub(super) struct OutsideWrite<'a> {
    pub(super) object: &'a Key,
    pub(super) verb: Verb,
    pub(super) name: &'a str,
    pub(super) diff: FieldDiff,
}

/// Returns the resources that the object desires. A panic in the world's code counts as this object's failure.
fn want<W: World>(world: &W, object: &W::Kind) -> Result<BTreeMap<String, W::Want>> {
    catch_unwind(AssertUnwindSafe(|| world.want(object)))
        .unwrap_or_else(|panic| Err(Fault::from_panic(&*panic)))
}

/// Returns whether this is the object that the resource belongs to.
pub(super) fn is_owner<K: crate::kind::Kind>(object: &K, owner: &Owner) -> bool {
    key_of(object) == owner.key && object.meta().uid.as_deref() == Some(owner.uid.as_str())
}

fn prefix_of(ownership: &Ownership) -> &str {
    match ownership {
        Ownership::Prefix(prefix) => prefix,
        Ownership::Tags | Ownership::Records => "",
    }
}

/// Returns a hash of the desired state: equal specs have equal hashes.
pub(super) fn fingerprint<T: Serialize>(wanted: &BTreeMap<String, T>) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(wanted).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
