//! The authorizer allows `system:masters` to do everything, and all other users to do what the roles bound to them
//! allow.
//!
//! **Invariant:** a decision sees every write that was acknowledged before it was asked for: it first applies the
//! changes in the store since the last decision. It uses roles and bindings that existed together at one moment. No
//! rule ever denies; a request that no rule allows is refused.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use homeostat_api::status::Status;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_store::{Error, SharedStore, Watch};

use super::MASTERS;
use super::rbac_index::{GROUP, RESOURCES, RbacIndex, RuleSet};
use super::{Decision, Identity, RequestAttributes, forbidden};

/// How often the watches are drained before giving up and reading everything again, because roles are written faster
/// than they can be followed.
const CATCH_UP_ROUNDS_MAX: usize = 16;

/// The policy missed changes and must be read again.
struct PolicyOutdated;

/// Decides who may do what, from the roles and bindings in the store.
pub struct Authorizer {
    /// Whether everyone may do everything, as with kube-apiserver's `--authorization-mode=AlwaysAllow`.
    allows_everything: bool,
    store: SharedStore,
    policy: RwLock<RbacIndex>,
    /// One watch per resource of the policy; empty if everything must be read again.
    watches: Mutex<Vec<Watch>>,
}

impl Authorizer {
    /// Creates an authorizer for the roles and bindings in this store.
    pub fn new(store: SharedStore) -> Self {
        Self { allows_everything: false, store, policy: RwLock::default(), watches: Mutex::default() }
    }

    /// Allows everyone to do everything, regardless of roles.
    #[must_use]
    pub fn allowing_everything(mut self, allows_everything: bool) -> Self {
        self.allows_everything = allows_everything;
        self
    }

    /// Decides whether the user may do this.
    pub fn decide(&self, who: &Identity, what: &RequestAttributes<'_>) -> Decision {
        if self.allows_everything || who.is_in(MASTERS) {
            return Decision::Allow(String::new());
        }
        self.policy().decide(who, what)
    }

    /// Like [`decide`](Self::decide), but without the reason, which takes longer to format than it takes to make the
    /// decision.
    pub(super) fn allows(&self, who: &Identity, what: &RequestAttributes<'_>) -> bool {
        self.allows_everything || who.is_in(MASTERS) || self.policy().allows(who, what)
    }

    /// Like [`decide`](Self::decide), but returns the refusal to send.
    pub fn authorize(&self, who: &Identity, what: &RequestAttributes<'_>) -> Result<(), Status> {
        if self.allows(who, what) {
            return Ok(());
        }
        Err(forbidden::status(who, what, &self.describe_missing_roles(who, what)))
    }

    /// Lists the missing roles that the user's bindings name, which may be why no rule applies. Usually empty.
    pub fn describe_missing_roles(&self, who: &Identity, what: &RequestAttributes<'_>) -> String {
        let namespace = match *what {
            RequestAttributes::Resource { namespace, .. } => namespace,
            RequestAttributes::Path { .. } => "",
        };
        match &*self.policy().missing_roles(who, namespace) {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        }
    }

    /// Returns every rule that applies to the user in the namespace, each role's rules once. Nothing is copied.
    pub(super) fn rules_for(&self, who: &Identity, namespace: &str) -> Vec<RuleSet> {
        self.policy().rules_for(who, namespace)
    }

    /// Returns the current policy.
    pub(super) fn policy(&self) -> RwLockReadGuard<'_, RbacIndex> {
        self.catch_up();
        self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the changes since the last call.
    fn catch_up(&self) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if watches.is_empty() || self.follow(&mut watches).is_err() {
            // The watches fell behind the history (or the server just started). In that case the current state is read.
            *watches = self.read_afresh().unwrap_or_default();
        }
    }

    /// Applies the changes to all resources up to the same moment together, so that no decision uses a half-updated
    /// policy.
    fn follow(&self, watches: &mut [Watch]) -> Result<(), PolicyOutdated> {
        let events = poll_until_quiet(watches, Watch::try_next)?;
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
        let mut policy = RbacIndex::default();
        for resource in RESOURCES {
            let prefix = ResourceIdentity::BuiltIn(GROUP, resource).prefix();
            let stored = snapshot.range(&prefix, "");
            policy.apply_all(stored.map(|entry| (&entry.key, Some(&*entry.bytes))));
        }
        *self.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
        let watch = |resource| {
            self.store.watch(&ResourceIdentity::BuiltIn(GROUP, resource).prefix(), snapshot.revision())
        };
        RESOURCES.into_iter().map(watch).collect()
    }
}

/// Collects the changes of all sources. Polls them until none has anything new. At that point no source has changed
/// between two polls, and the result is complete as of one moment.
fn poll_until_quiet<S, T>(
    sources: &mut [S],
    next: impl Fn(&mut S) -> Result<Vec<T>, Error>,
) -> Result<Vec<T>, PolicyOutdated> {
    let mut told = Vec::new();
    for _ in 0..CATCH_UP_ROUNDS_MAX {
        let before = told.len();
        for source in &mut *sources {
            told.extend(next(source).map_err(|_| PolicyOutdated)?);
        }
        if told.len() == before {
            return Ok(told);
        }
    }
    Err(PolicyOutdated)
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
        let what = RequestAttributes::Path { verb: "get", path: "/metrics" };
        assert!(authorizer.decide(&Identity::admin(), &what).is_allowed());
        assert!(!authorizer.decide(&jane, &what).is_allowed());
        let role = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]});
        let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "jane"}]});
        write(&store, "clusterrolebindings", "b", Some(binding)).await;
        let refusal = authorizer.authorize(&jane, &what).unwrap_err();
        assert!(refusal.message.ends_with(r#"RBAC: clusterrole.rbac.authorization.k8s.io "r" not found"#));
        write(&store, "clusterroles", "r", Some(role)).await;
        assert!(authorizer.decide(&jane, &what).is_allowed());
        write(&store, "clusterrolebindings", "b", None).await;
        assert!(!authorizer.decide(&jane, &what).is_allowed());
        let revision = store.snapshot().revision();
        store.compact(revision).await.unwrap();
        assert!(!authorizer.decide(&jane, &what).is_allowed());
    }

    /// Suppose a role is narrowed after it was polled, and a user is bound to it before the bindings are polled:
    /// applying the binding alone would allow something that was never allowed.
    #[test]
    fn changes_between_two_polls_are_applied_together() {
        // Answers are taken from the end, so the first answer about roles is empty.
        let roles = vec![vec!["the role is narrowed"], vec![]];
        let bindings = vec![vec!["somebody is bound to it"]];
        let next = |source: &mut Vec<Vec<&'static str>>| Ok(source.pop().unwrap_or_default());
        let changes = poll_until_quiet(&mut [roles, bindings], next).ok();
        assert_eq!(changes, Some(vec!["somebody is bound to it", "the role is narrowed"]));
        // A source that never runs dry is abandoned.
        assert!(poll_until_quiet(&mut [()], |()| Ok(vec!["more"])).is_err());
    }
}
