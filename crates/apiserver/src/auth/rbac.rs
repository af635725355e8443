//! The authorizer: `system:masters` may do everything, everyone else what roles bound to them allow.
//!
//! **Invariant:** a decision sees every write that was acknowledged before it was asked for: it first takes in what
//! changed in the store since the last one. It is made on roles and bindings that were there together at one moment. No rule
//! ever denies; what nobody allows is refused.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use homeostat_store::{Error, SharedStore, Watch};

use super::identity::MASTERS;
use super::policy::{GROUP, Policy, RESOURCES, RuleSet};
use super::{Attributes, Decision, Identity, forbidden};
use crate::status::Status;
use crate::storage::Storage;

/// How often the watches are asked before everything is read afresh: somebody writes roles faster than they are followed.
const ROUNDS_MAX: usize = 16;

/// The policy cannot be followed and must be read afresh.
struct LeftBehind;

/// Decides who may do what, from the roles and bindings in the store.
pub struct Authorizer {
    store: SharedStore,
    policy: RwLock<Policy>,
    /// One per resource of the policy; empty: everything must be read afresh.
    watches: Mutex<Vec<Watch>>,
}

impl Authorizer {
    /// An authorizer over the roles and bindings in this store.
    pub fn new(store: SharedStore) -> Self {
        Self { store, policy: RwLock::default(), watches: Mutex::default() }
    }

    /// May they?
    pub fn decide(&self, who: &Identity, what: &Attributes<'_>) -> Decision {
        if who.is_in(MASTERS) {
            return Decision::Allow(String::new());
        }
        self.policy().decide(who, what)
    }

    /// Like [`decide`](Self::decide), without the reason, which takes longer to write than to find.
    pub(super) fn allows(&self, who: &Identity, what: &Attributes<'_>) -> bool {
        who.is_in(MASTERS) || self.policy().allows(who, what)
    }

    /// Like [`decide`](Self::decide), with the refusal ready to be sent.
    pub fn check(&self, who: &Identity, what: &Attributes<'_>) -> Result<(), Status> {
        if self.allows(who, what) {
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

    /// Every rule that applies to the user in the namespace, those of each role once. Nothing is copied.
    pub(super) fn rules_for(&self, who: &Identity, namespace: &str) -> Vec<RuleSet> {
        self.policy().rules_for(who, namespace)
    }

    /// The policy as of now.
    pub(super) fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        self.catch_up();
        self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what changed.
    fn catch_up(&self) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if watches.is_empty() || self.follow(&mut watches).is_err() {
            // History has left us behind (or we just started): what is stored now is all that counts.
            *watches = self.read_afresh().unwrap_or_default();
        }
    }

    /// Takes in the changes of all resources up to one moment, at once: nobody decides on a policy half taken in.
    fn follow(&self, watches: &mut [Watch]) -> Result<(), LeftBehind> {
        let events = gather(watches, Watch::try_next)?;
        if !events.is_empty() {
            let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
            let changes =
                events.iter().map(|event| (&event.key, event.new.as_ref().map(|entry| &*entry.bytes)));
            policy.apply_all(changes);
        }
        Ok(())
    }

    fn read_afresh(&self) -> Result<Vec<Watch>, Error> {
        let snapshot = self.store.snapshot();
        let mut policy = Policy::default();
        for resource in RESOURCES {
            let prefix = Storage::BuiltIn(GROUP, resource).prefix();
            let stored = snapshot.range(&prefix, "");
            policy.apply_all(stored.map(|entry| (&entry.key, Some(&*entry.bytes))));
        }
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        let watch =
            |resource| self.store.watch(&Storage::BuiltIn(GROUP, resource).prefix(), snapshot.revision());
        RESOURCES.into_iter().map(watch).collect()
    }
}

/// What all sources have to tell. They are asked until none has anything: then nothing happened in any of them between two
/// questions to the same one, and what they told is all there was at one moment.
fn gather<S, T>(
    sources: &mut [S],
    next: impl Fn(&mut S) -> Result<Vec<T>, Error>,
) -> Result<Vec<T>, LeftBehind> {
    let mut told = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let before = told.len();
        for source in &mut *sources {
            told.extend(next(source).map_err(|_| LeftBehind)?);
        }
        if told.len() == before {
            return Ok(told);
        }
    }
    Err(LeftBehind)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use homeostat_core::Key;
    use homeostat_store::memory::Memory;
    use homeostat_store::{Expect, Op, Txn, Value};
    use serde_json::json;

    use super::*;

    async fn write(store: &SharedStore, resource: &str, name: &str, object: Option<serde_json::Value>) {
        let op = object.map_or(Op::Delete, |object| Op::Put(Value::plain(object.to_string())));
        let key = Key::new(GROUP, resource, "", name);
        store.commit(Txn::one(key, Expect::Any, op)).await.unwrap();
    }

    #[tokio::test]
    async fn a_decision_sees_every_write_before_it() {
        let store: SharedStore = Arc::new(Memory::new());
        let authorizer = Authorizer::new(store.clone());
        let jane = Identity { name: "jane".into(), ..Identity::default() };
        let what = Attributes::Path { verb: "get", path: "/metrics" };
        assert!(authorizer.decide(&Identity::admin(), &what).is_allowed());
        assert!(!authorizer.decide(&jane, &what).is_allowed());
        let role = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]});
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "jane"}]});
        write(&store, "clusterrolebindings", "b", Some(binding)).await;
        let refusal = authorizer.check(&jane, &what).unwrap_err();
        assert!(refusal.message.ends_with(r#"RBAC: clusterrole.rbac.authorization.k8s.io "r" not found"#));
        write(&store, "clusterroles", "r", Some(role)).await;
        assert!(authorizer.decide(&jane, &what).is_allowed());
        write(&store, "clusterrolebindings", "b", None).await;
        assert!(!authorizer.decide(&jane, &what).is_allowed());
        let revision = store.snapshot().revision();
        store.compact(revision).await.unwrap();
        assert!(!authorizer.decide(&jane, &what).is_allowed());
    }

    /// A role is narrowed after it was asked about, and somebody is bound to it before the bindings are asked about: who took in
    /// the binding alone would allow what was never allowed.
    #[test]
    fn what_happens_between_two_questions_is_taken_in_together() {
        // Answers are taken from the end: that about roles is empty at first.
        let roles = vec![vec!["the role is narrowed"], vec![]];
        let bindings = vec![vec!["somebody is bound to it"]];
        let next = |source: &mut Vec<Vec<&'static str>>| Ok(source.pop().unwrap_or_default());
        let told = gather(&mut [roles, bindings], next).ok();
        assert_eq!(told, Some(vec!["somebody is bound to it", "the role is narrowed"]));
        // Who is never done telling is not waited for.
        assert!(gather(&mut [()], |()| Ok(vec!["more"])).is_err());
    }
}
