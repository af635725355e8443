//! Defines the RBAC rules that an operator needs for a kind: they are declared by the builder, checked at startup and
//! printed as manifests.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;

use crate::kind::{Kind, KindInfo, info};

/// Verbs on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) group: String,
    /// Plural, followed by `/subresource` if the rule is about one.
    pub(crate) resource: String,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) is_namespaced: bool,
    /// Whether the objects of this resource are reconciled.
    pub(crate) is_main: bool,
}

/// The verbs for following a kind, and for reading its objects.
pub(crate) const READ: &[&str] = &["get", "list", "watch"];
/// The verbs for creating, changing and deleting children. Applying a child for the first time reads it, to find its
/// owner.
pub(crate) const WRITE: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// The same verbs, without following the children.
pub(crate) const WRITE_ONLY: &[&str] = &["get", "create", "patch", "delete"];
/// The verbs for the records of a world: they are watched, and never read one by one.
pub(crate) const KEEP: &[&str] = &["list", "watch", "create", "patch", "delete"];
/// The verbs for reading an object without following its kind.
pub(crate) const GET: &[&str] = &["get"];
/// The verbs for changing existing objects.
pub(crate) const PATCH: &[&str] = &["patch"];
/// `blockOwnerDeletion` in an owner reference requires this verb on the owner's finalizers.
const UPDATE: &[&str] = &["update"];

/// How a controller writes the objects it reconciles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MainWrites {
    /// Whether it writes our finalizers and annotations.
    pub(crate) metadata: bool,
    /// Whether the reconciler or the runtime writes their status.
    pub(crate) status: bool,
    /// Whether they become owners of other objects.
    pub(crate) owns: bool,
}

impl Rule {
    pub(crate) fn on<K: Kind>(subresource: &str, verbs: &'static [&'static str]) -> Self {
        Self::on_kind(info::<K>(), subresource, verbs)
    }

    fn on_kind(info: &KindInfo, subresource: &str, verbs: &'static [&'static str]) -> Self {
        Self {
            group: info.group.clone(),
            resource: format!("{}{subresource}", info.plural),
            verbs,
            is_namespaced: info.is_namespaced,
            is_main: false,
        }
    }

    /// Returns the rules for a controller's main kind. A status that others write at the same moment is read again, so
    /// `get` is always needed.
    pub(crate) fn for_main_kind(info: &KindInfo, writes: MainWrites) -> Vec<Self> {
        let mut rules = vec![Self { is_main: true, ..Self::on_kind(info, "", READ) }];
        if writes.metadata {
            rules.push(Self::on_kind(info, "", PATCH));
        }
        if writes.status {
            rules.push(Self::on_kind(info, "/status", PATCH));
        }
        if writes.owns {
            rules.push(Self::on_kind(info, "/finalizers", UPDATE));
        }
        rules
    }

    /// Returns the rule that allows recording events.
    pub(crate) fn events() -> Self {
        Self::on::<Event>("", &["create", "patch"])
    }
}

/// Returns the rules that an operator with an admin server needs for `why`: asking who a caller is and what they may
/// read.
pub(crate) fn review_rules() -> Vec<Rule> {
    let rule = |group: &str, resource: &str| Rule {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verbs: &["create"],
        is_namespaced: false,
        is_main: false,
    };
    vec![rule("authentication.k8s.io", "tokenreviews"), rule("authorization.k8s.io", "subjectaccessreviews")]
}

/// Returns the rule that an operator without an election needs to announce its admin server in a Lease. Applying
/// creates the Lease.
pub(crate) fn announcement_rule() -> Rule {
    Rule::on::<Lease>("", &["create", "patch", "delete"])
}

/// Lists the kinds that are reconciled, for people.
pub(crate) fn describe_reconciled_kinds(rules: &[Rule]) -> String {
    let kind = |rule: &Rule| format!("{}.{}", rule.resource, rule.group).trim_end_matches('.').to_owned();
    let kinds: BTreeSet<String> = rules.iter().filter(|rule| rule.is_main).map(kind).collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
}

/// All verbs on one resource.
pub(crate) struct MergedRule {
    pub(crate) group: String,
    /// Plural, followed by `/subresource` if the rule is about one.
    pub(crate) resource: String,
    pub(crate) verbs: BTreeSet<&'static str>,
    pub(crate) is_namespaced: bool,
}

/// Merges rules on the same resource, sorted by group and resource.
pub(crate) fn merge_rules(rules: &[Rule]) -> Vec<MergedRule> {
    let mut merged: BTreeMap<(&str, &str), MergedRule> = BTreeMap::new();
    for rule in rules {
        let joined = merged.entry((&rule.group, &rule.resource)).or_insert_with(|| MergedRule {
            group: rule.group.clone(),
            resource: rule.resource.clone(),
            verbs: BTreeSet::new(),
            is_namespaced: rule.is_namespaced,
        });
        joined.verbs.extend(rule.verbs);
    }
    merged.into_values().collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn a_main_kind_gets_only_the_rights_that_its_controller_uses() {
        let check = |writes: MainWrites, expected: &[(&str, &[&str])]| {
            let rules = Rule::for_main_kind(info::<ConfigMap>(), writes);
            let rules = rules.iter().map(|rule| (&*rule.resource, rule.verbs)).collect::<Vec<_>>();
            assert_eq!(rules, expected, "{writes:?}");
        };
        let nothing = MainWrites::default();
        let read = ("configmaps", READ);
        check(nothing, &[read]);
        check(MainWrites { metadata: true, ..nothing }, &[read, ("configmaps", PATCH)]);
        check(MainWrites { status: true, ..nothing }, &[read, ("configmaps/status", PATCH)]);
        check(MainWrites { owns: true, ..nothing }, &[read, ("configmaps/finalizers", UPDATE)]);
    }
}
