//! Everything about one world in one place: the API behind its limiter, the policy, the caches, the books. Reconciles and
//! the patrol share it; it answers who wants a thing and whose it is.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use homeostat_core::Key;
use homeostat_core::journal::{Entry, Source, Verb, WatchState, WriteOutcome};
use kube::Resource;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::contract::{Answer, World};
use super::decide::{Claim, Owner};
use super::health::Passes;
use super::leaks::{Pace, Suspicion};
use super::ledger::Ledger;
use super::limiter::{CallLimiter, Stopped};
use super::mark::Mark;
use super::policy::{Ownership, Policy, Use};
use super::record::Records;
use super::survey::Finding;
use crate::cache::{Cache, Index};
use crate::engine::words_of;
use crate::error::Error;
use crate::fault::{Fault, Result};
use crate::kind::{info, key, key_of};
use crate::shared::OperatorShared;

/// One world and all that is known about it.
pub(super) struct WorldParts<W: World> {
    pub(super) world: Arc<W>,
    pub(super) policy: Policy<W::Have>,
    pub(super) limiter: CallLimiter,
    pub(super) ledger: Ledger,
    pub(super) shared: Arc<OperatorShared>,
    pub(super) source: Source,
    pub(super) cache: Cache<W::Kind>,
    pub(super) records: Option<Records>,
    /// Asks the patrol for a full pass.
    pub(super) wake: Notify,
    pub(super) passes: Passes,
    wants: Index<W::Kind, String>,
    pace: Mutex<Pace>,
}

impl<W: World> WorldParts<W> {
    pub(super) fn new(world: W, policy: Policy<W::Have>, name: &str, shared: &Arc<OperatorShared>) -> Self {
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
            ledger: Ledger::new(policy.settle),
            policy: Policy { identity: Some(manager), ..policy },
            shared: shared.clone(),
            source: name.into(),
            cache,
            records,
            wake: Notify::new(),
            passes: Passes::new(),
            wants,
            pace: Mutex::default(),
        }
    }

    /// Who we are in marks and records.
    pub(super) fn manager(&self) -> &str {
        self.policy.identity.as_deref().unwrap_or_default()
    }

    pub(super) fn mark(&self, object: &W::Kind) -> Mark {
        Mark::of(self.manager(), object)
    }

    /// What the object wants, by the names the things have outside.
    pub(super) fn wanted(&self, object: &W::Kind) -> Result<BTreeMap<String, W::Want>> {
        let wanted = want(&*self.world, object)?;
        let prefix = prefix_of(&self.policy.ownership);
        if prefix.is_empty() {
            return Ok(wanted);
        }
        Ok(wanted.into_iter().map(|(name, want)| (format!("{prefix}{name}"), want)).collect())
    }

    /// The objects that want a thing of this name and are there to stay; the first of them holds the name.
    pub(super) fn claimants(&self, name: &str) -> Vec<(Key, Arc<W::Kind>)> {
        let mut found = self.wants.entries(&name.to_owned());
        found.retain(|(_, object)| object.meta().deletion_timestamp.is_none());
        // By age, so that a newcomer never takes a name from whoever has it.
        found.sort_by_key(|(_, object)| object.meta().creation_timestamp.as_ref().map(|time| time.0));
        found
    }

    /// The keys of all objects that want a thing of this name, those on their way out included.
    pub(super) fn wishers(&self, name: &str) -> Vec<Key> {
        self.wants.keys(&name.to_owned())
    }

    /// Whose the thing is.
    pub(super) fn claim(&self, name: &str, have: &W::Have) -> Claim {
        match &self.policy.ownership {
            Ownership::Prefix(prefix) if name.starts_with(prefix.as_str()) => Claim::Ours(None),
            Ownership::Prefix(_) => Claim::Nobody,
            Ownership::Tags => match self.world.mark(have) {
                Some(mark) if mark.is_of(self.manager()) => {
                    Claim::Ours(Some(Owner { key: mark.key::<W::Kind>(), uid: mark.uid }))
                }
                Some(mark) if !mark.is_blank() => Claim::Theirs(mark.to_string()),
                Some(_) | None => Claim::Nobody,
            },
            Ownership::Records => self.recorded(name, have),
        }
    }

    fn recorded(&self, name: &str, have: &W::Have) -> Claim {
        let Some(record) = self.records.as_ref().and_then(|records| records.of_thing(name)) else {
            return Claim::Nobody;
        };
        let spec = &record.spec;
        let owner =
            Owner { key: key::<W::Kind>(&spec.owner_namespace, &spec.owner), uid: spec.owner_uid.clone() };
        let is_it = |intent: &String| {
            serde_json::from_str::<W::Want>(intent).is_ok_and(|want| self.world.diff(&want, have).is_empty())
        };
        if spec.made || spec.intents().any(is_it) { Claim::Ours(Some(owner)) } else { Claim::Doubtful(owner) }
    }

    /// What a listed thing means. One that makes the world's code panic is left to the objects that want it, whose
    /// failure it then is.
    pub(super) fn look(&self, name: &str, have: &W::Have) -> Finding {
        catch_unwind(AssertUnwindSafe(|| self.look_at(name, have))).unwrap_or_else(|panic| {
            tracing::error!(world = W::NAME, name, why = words_of(&*panic), "a thing cannot be judged");
            Finding::InTheWay(self.wishers(name))
        })
    }

    fn look_at(&self, name: &str, have: &W::Have) -> Finding {
        let claim = self.claim(name, have);
        let claimants = self.claimants(name);
        if claimants.is_empty() {
            return self.look_at_unwanted(name, claim);
        }
        let keys = || claimants.iter().map(|(key, _)| key.clone()).collect();
        let claimant = match &claim {
            Claim::Ours(Some(owner)) => claimants.iter().find(|(_, object)| is_owner(&**object, owner)),
            Claim::Ours(None) => claimants.first(),
            Claim::Doubtful(_) | Claim::Theirs(_) | Claim::Nobody => None,
        };
        let is_equal = |object: &Arc<W::Kind>| {
            self.wanted(object).is_ok_and(|wanted| {
                wanted.get(name).is_some_and(|want| self.world.diff(want, have).is_empty())
            })
        };
        match claimant {
            Some((key, object)) if is_equal(object) => Finding::InSync(key.clone()),
            _ if self.is_ours(&claim) => Finding::Suspect(keys()),
            _ => Finding::InTheWay(keys()),
        }
    }

    /// Is a thing with this claim ours for certain?
    fn is_ours(&self, claim: &Claim) -> bool {
        match claim {
            Claim::Ours(owner) => owner.as_ref().is_none_or(|owner| self.is_in_scope(&owner.key)),
            Claim::Nobody => self.policy.r#use == Use::Exclusive,
            Claim::Doubtful(_) | Claim::Theirs(_) => false,
        }
    }

    fn look_at_unwanted(&self, name: &str, claim: Claim) -> Finding {
        match claim {
            Claim::Ours(Some(owner)) | Claim::Doubtful(owner) if !self.is_in_scope(&owner.key) => {
                Finding::Foreign
            }
            Claim::Ours(Some(owner)) if self.is_missing(&owner) => Finding::Leak(Suspicion::OwnerGone(owner)),
            Claim::Ours(Some(owner)) => match self.cache.get(&owner.key) {
                Some(object) if object.meta().deletion_timestamp.is_some() => Finding::Kept,
                _ => Finding::Unlisted(owner.key),
            },
            // The last who wanted it is on its way out, and its cleanup takes the thing along.
            Claim::Ours(None) if !self.wishers(name).is_empty() => Finding::Kept,
            Claim::Ours(None) => Finding::Leak(Suspicion::Unwanted),
            Claim::Doubtful(owner) => Finding::InTheWay(vec![owner.key]),
            Claim::Nobody if self.policy.r#use == Use::Exclusive => Finding::Leak(Suspicion::Stray),
            Claim::Nobody | Claim::Theirs(_) => Finding::Foreign,
        }
    }

    /// Do we see the objects of this key's namespace at all?
    pub(super) fn is_in_scope(&self, key: &Key) -> bool {
        let namespace = self.shared.scope.namespace.as_deref();
        namespace.is_none_or(|namespace| key.namespace().is_empty() || namespace == key.namespace())
    }

    /// Are the caches in step with the server?
    pub(super) fn is_fresh(&self) -> bool {
        let records = self.records.as_ref().map(|records| records.cache.freshness());
        let all = [Some(self.cache.freshness()), records];
        all.iter().flatten().all(|cache| cache.is_synced && cache.state == WatchState::Fresh)
    }

    /// Takes one deletion that the engine decided on by itself; or says how long until there is one to take.
    pub(super) fn pace(&self) -> std::result::Result<(), Duration> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.take(self.policy.sweep.per_minute, Instant::now())
    }

    /// Refuses to act for an object that this process may not act for.
    pub(super) fn admit(&self, object: &Key, verb: Verb, target: &Key) -> std::result::Result<(), Error> {
        if self.shared.fence.admits(object) {
            return Ok(());
        }
        self.note(object, verb, target, WriteOutcome::Fenced);
        Err(Error::Fenced { target: target.clone() })
    }

    /// Sends a write outside for this object, if this process may still act for it when the write's turn has come.
    pub(super) async fn write(
        &self,
        (object, verb, name): (&Key, Verb, &str),
        call: impl Future<Output = Answer<()>>,
    ) -> std::result::Result<(), Stopped> {
        let target = Self::target(name);
        let admitted = || self.admit(object, verb, &target).map_err(Stopped::Cluster);
        let answer = self.limiter.write(admitted, call).await;
        self.noting(object, verb, &target, answer)
    }

    /// The thing as the journal names it.
    pub(super) fn target(name: &str) -> Key {
        Key::new("outside", W::NAME, "", &name.replace('/', ":"))
    }

    pub(super) fn note(&self, object: &Key, verb: Verb, target: &Key, outcome: WriteOutcome) {
        let (object, target) = (object.clone(), target.clone());
        let entry = Entry::Wrote { object, verb, target, outcome, diff: vec![] };
        self.shared.journal.record(&self.source, entry);
    }

    /// Notes what came of a write outside.
    fn noting(
        &self,
        object: &Key,
        verb: Verb,
        target: &Key,
        answer: std::result::Result<(), Stopped>,
    ) -> std::result::Result<(), Stopped> {
        match &answer {
            Ok(()) => self.note(object, verb, target, WriteOutcome::Done { revision: None }),
            Err(Stopped::Failed(failure)) => {
                self.note(object, verb, target, WriteOutcome::Failed { error: failure.to_string() });
            }
            Err(Stopped::Blocked(_) | Stopped::Cluster(_)) => {}
        }
        answer
    }
}

/// What the object wants. That the world's code panics over it is this object's failure.
fn want<W: World>(world: &W, object: &W::Kind) -> Result<BTreeMap<String, W::Want>> {
    catch_unwind(AssertUnwindSafe(|| world.want(object)))
        .unwrap_or_else(|panic| Err(Fault::panic(words_of(&*panic))))
}

/// Is this the very object the thing is kept for?
pub(super) fn is_owner<K: crate::kind::Kind>(object: &K, owner: &Owner) -> bool {
    key_of(object) == owner.key && object.meta().uid.as_deref() == Some(owner.uid.as_str())
}

fn prefix_of(ownership: &Ownership) -> &str {
    match ownership {
        Ownership::Prefix(prefix) => prefix,
        Ownership::Tags | Ownership::Records => "",
    }
}

/// What is wanted, as a number: the same wishes give the same number.
pub(super) fn fingerprint<T: Serialize>(wanted: &BTreeMap<String, T>) -> u64 {
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(wanted).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
