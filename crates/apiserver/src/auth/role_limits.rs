//! Limits what the Roles and RoleBindings of a namespace may cost a decision.
//!
//! Every request is compared with the rules of all roles that its user has, on the thread that serves all others, and
//! whoever administers a namespace writes as many rules as the store takes. kube-apiserver has no such limits.
//!
//! **Invariant:** what a decision costs because of one namespace's objects is bounded: by [`COMPARISONS_MAX`] for
//! Roles, and by the limits in `rbac_index` for bindings.
//! ClusterRoles and their cluster-wide bindings are not limited: administrators of the cluster write them.

use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Key;
use serde::Deserialize as _;
use serde_json::Value;

use super::Authorizer;
use super::rbac_index::{GROUP, StoredBinding};
use super::rule::{Rule, comparisons_of_rules};

/// The maximum number of comparisons that a decision may take because of all Roles of a namespace: about 0.2 ms, and
/// enough for more than a thousand rules such as people write, with ten strings each.
const COMPARISONS_MAX: usize = 20_000;

/// Returns whether writes to this storage are limited.
pub(crate) fn limits_role_writes(storage: ResourceIdentity<'_>) -> bool {
    matches!(storage, ResourceIdentity::BuiltIn(GROUP, "roles" | "rolebindings"))
}

impl Authorizer {
    /// Checks that the namespace is within its limits after this Role or RoleBinding is written; returns why it is not.
    /// A write that makes matters no worse is always allowed.
    pub(crate) fn check_role_limits(
        &self,
        storage: ResourceIdentity<'_>,
        key: &Key,
        object: &Value,
    ) -> Result<(), String> {
        match storage {
            ResourceIdentity::BuiltIn(GROUP, "roles") => self.check_rules(key, object),
            ResourceIdentity::BuiltIn(GROUP, "rolebindings") => self.check_bindings(key, object),
            _ => Ok(()),
        }
    }

    fn check_rules(&self, key: &Key, role: &Value) -> Result<(), String> {
        // Rules that cannot be parsed grant nothing and cost nothing.
        let rules = Option::<Vec<Rule>>::deserialize(&role["rules"]).ok().flatten().unwrap_or_default();
        let new = comparisons_of_rules(&rules);
        let (old, others) = self.policy().comparisons_in(key.namespace(), key.name());
        if new <= old || new.saturating_add(others) <= COMPARISONS_MAX {
            return Ok(());
        }
        Err(format!(
            "the rules of all Roles in a namespace may take at most {COMPARISONS_MAX} comparisons, about one for each \
             string in them; these would take {}",
            new.saturating_add(others)
        ))
    }

    fn check_bindings(&self, key: &Key, binding: &Value) -> Result<(), String> {
        // A binding that cannot be parsed grants nothing and costs nothing.
        StoredBinding::deserialize(binding)
            .map_or(Ok(()), |binding| self.policy().check_room_for(key.namespace(), key.name(), binding))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use homeostat_store::{Expect, Memory, Op, SharedStore, Txn, Value as Bytes};
    use serde_json::json;

    use super::*;

    const ROLES: ResourceIdentity<'_> = ResourceIdentity::BuiltIn(GROUP, "roles");
    const BINDINGS: ResourceIdentity<'_> = ResourceIdentity::BuiltIn(GROUP, "rolebindings");

    /// Returns a role with this many different rules of four comparisons each.
    fn role(rules: usize) -> Value {
        let rule = |at: usize| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [format!("v{at}")]});
        json!({"rules": (0..rules).map(rule).collect::<Vec<_>>()})
    }

    fn binding(subjects: impl Iterator<Item = usize>) -> Value {
        let subject = |at: usize| json!({"kind": "User", "name": format!("u{at}")});
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects.map(subject).collect::<Vec<_>>()})
    }

    /// Writes the object if it is within the limits, and returns whether it was.
    async fn write(authorizer: &Authorizer, store: &SharedStore, key: Key, object: Value) -> bool {
        let storage = ResourceIdentity::of_key(&key);
        if authorizer.check_role_limits(storage, &key, &object).is_err() {
            return false;
        }
        let op = Op::Put(Bytes::plain(object.to_string()));
        store.commit(Txn::one(key, Expect::Any, op)).await.unwrap();
        true
    }

    fn authorizer() -> (Authorizer, SharedStore) {
        let store: SharedStore = Arc::new(Memory::new());
        (Authorizer::new(Arc::clone(&store)), store)
    }

    #[tokio::test]
    async fn the_roles_of_a_namespace_are_limited_together() {
        let (authorizer, store) = authorizer();
        let half = COMPARISONS_MAX / 8;
        let expect = async |namespace: &str, name: &str, rules: usize, expected: bool| {
            let key = ROLES.key(namespace, name);
            assert_eq!(
                write(&authorizer, &store, key, role(rules)).await,
                expected,
                "{namespace}/{name} {rules}"
            );
        };
        expect("a", "too-large", 2 * half + 1, false).await;
        expect("a", "one", half, true).await;
        expect("a", "other", half + 1, false).await;
        expect("a", "other", half, true).await;
        expect("a", "third", 1, false).await;
        expect("b", "third", 1, true).await;
        expect("a", "one", half, true).await;
        expect("a", "one", half + 1, false).await;
        expect("a", "one", half - 1, true).await;
        expect("a", "third", 1, true).await;
    }

    #[test]
    fn long_strings_count_as_several_and_long_lists_as_short_ones() {
        let comparisons = |verbs: Vec<String>| {
            let rule = json!([{"verbs": verbs}]);
            comparisons_of_rules(&serde_json::from_value::<Vec<Rule>>(rule).unwrap())
        };
        assert_eq!(comparisons(vec![]), 1);
        assert_eq!(comparisons(vec!["get".into(), "list".into()]), 3);
        assert_eq!(comparisons(vec!["x".repeat(2560)]), 12);
        assert_eq!(comparisons(vec!["get".into(); 100_000]), 33, "it is searched by bisection");
    }

    #[tokio::test]
    async fn a_subject_has_a_limited_number_of_bindings_and_a_namespace_of_subjects() {
        let (authorizer, store) = authorizer();
        let mut accepted = 0;
        while write(&authorizer, &store, BINDINGS.key("a", &format!("b{accepted}")), binding(0..1)).await {
            accepted += 1;
        }
        assert_eq!(accepted, 500);
        for (namespace, name, subjects, expected) in [
            ("a", "b7", 0..2, true),
            ("a", "other", 1..2, true),
            ("a", "other", 0..2, false),
            ("b", "other", 0..2, true),
            ("b", "many", 10..50_008, true),
            ("b", "more", 5..6, false),
            ("b", "many", 11..50_008, true),
            ("b", "more", 5..6, true),
        ] {
            let key = BINDINGS.key(namespace, name);
            assert_eq!(
                write(&authorizer, &store, key, binding(subjects)).await,
                expected,
                "{namespace}/{name}"
            );
        }
    }
}
