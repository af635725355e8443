//! The authorizer: `system:masters` may do everything, everyone else what roles bound to them allow.
//!
//! **Invariant:** a decision sees every write that was acknowledged before it was asked for: it first takes in what
//! changed in the store since the last one. No rule ever denies; what nobody allows is refused.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use homeostat_core::{Key, Prefix, Revision};
use homeostat_store::{SharedStore, Snapshot};

use super::identity::MASTERS;
use super::policy::{GROUP, Policy, RESOURCES};
use super::rule::Rule;
use super::{Attributes, Decision, Identity, forbidden};
use crate::status::Status;

/// Decides who may do what, from the roles and bindings in the store.
pub struct Authorizer {
    store: SharedStore,
    policy: RwLock<Policy>,
    taken_in: Mutex<TakenIn>,
}

/// What the policy was made of.
#[derive(Default)]
struct TakenIn {
    /// Of the whole store.
    revision: Revision,
    /// Of each role and binding.
    entries: BTreeMap<Key, Revision>,
}

impl Authorizer {
    /// An authorizer over the roles and bindings in this store.
    pub fn new(store: SharedStore) -> Self {
        Self { store, policy: RwLock::default(), taken_in: Mutex::default() }
    }

    /// May they?
    pub fn decide(&self, who: &Identity, what: &Attributes<'_>) -> Decision {
        if who.is_in(MASTERS) {
            return Decision::Allow(String::new());
        }
        self.policy().decide(who, what)
    }

    /// Like [`decide`](Self::decide), with the refusal ready to be sent.
    pub fn check(&self, who: &Identity, what: &Attributes<'_>) -> Result<(), Status> {
        if self.decide(who, what).is_allowed() {
            return Ok(());
        }
        Err(forbidden::status(who, what, &self.why_not(who, what)))
    }

    /// What may have kept rules from being found: roles that bindings name and that do not exist. Usually empty.
    pub fn why_not(&self, who: &Identity, what: &Attributes<'_>) -> String {
        let namespace = match *what {
            Attributes::Resource { namespace, .. } => namespace,
            Attributes::Path { .. } => "",
        };
        match &*self.policy().missing_roles(who, namespace) {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        }
    }

    /// Every rule that applies to the user in the namespace.
    pub(super) fn rules_for(&self, who: &Identity, namespace: &str) -> Vec<Rule> {
        self.policy().rules_for(who, namespace).into_iter().cloned().collect()
    }

    /// The policy as of now.
    pub(super) fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        self.catch_up();
        self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what changed. The lock is held throughout, so that nobody decides on a policy half taken in.
    fn catch_up(&self) {
        let mut taken_in = self.taken_in.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.store.snapshot();
        if snapshot.revision() == taken_in.revision {
            return;
        }
        let changes = taken_in.changes(&snapshot);
        if !changes.is_empty() {
            let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            let must_resolve = changes.iter().fold(false, |must, key| {
                policy.apply(key, snapshot.get(key).map(|entry| &*entry.bytes)) || must
            });
            if must_resolve {
                policy.resolve();
            }
        }
        taken_in.revision = snapshot.revision();
    }
}

impl TakenIn {
    /// The keys whose entries differ from what was taken in, which is noted as done.
    fn changes(&mut self, snapshot: &Snapshot) -> Vec<Key> {
        let mut gone = std::mem::take(&mut self.entries);
        let mut changed = Vec::new();
        for resource in RESOURCES {
            for entry in snapshot.range(&Prefix::resource(GROUP, resource), "") {
                if gone.remove(&entry.key) != Some(entry.revision) {
                    changed.push(entry.key.clone());
                }
                self.entries.insert(entry.key.clone(), entry.revision);
            }
        }
        changed.extend(gone.into_keys());
        changed
    }
}
