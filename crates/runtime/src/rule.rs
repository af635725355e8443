//! What an operator may need to do to a kind: declared by the builder, checked at start, printed as RBAC.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;

use crate::kind::{Kind, Metadata, is_namespaced};

/// Verbs on one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) group: String,
    /// Plural, with `/subresource` if one is meant.
    pub(crate) resource: String,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) is_namespaced: bool,
}

/// Following a kind.
pub(crate) const READ: &[&str] = &["get", "list", "watch"];
/// Making, changing and removing children.
pub(crate) const WRITE: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
/// The same without following them; applying one for the first time asks whose it is.
pub(crate) const WRITE_ONLY: &[&str] = &["get", "create", "patch", "delete"];
/// Following the main kind and minding its finalizers.
pub(crate) const MAIN: &[&str] = &["get", "list", "watch", "patch"];
/// Writing a subresource.
pub(crate) const PATCH: &[&str] = &["patch"];
/// `blockOwnerDeletion` in an owner reference asks for this right on the owner's finalizers.
pub(crate) const UPDATE: &[&str] = &["update"];

impl Rule {
    pub(crate) fn on<K: Kind>(subresource: &str, verbs: &'static [&'static str]) -> Self {
        Self {
            group: K::group(&()).into_owned(),
            resource: format!("{}{subresource}", K::plural(&())),
            verbs,
            is_namespaced: is_namespaced::<K>(),
        }
    }

    /// What a controller does to its main kind.
    pub(crate) fn main<K: Kind>() -> [Self; 3] {
        [Self::on::<K>("", MAIN), Self::on::<K>("/status", PATCH), Self::on::<K>("/finalizers", UPDATE)]
    }

    /// Telling people.
    pub(crate) fn events() -> Self {
        Self::on::<Event>("", &["create", "patch"])
    }

    /// Holding leases among its replicas.
    pub(crate) fn leases() -> Self {
        Self::on::<Lease>("", &["get", "list", "create", "update", "delete"])
    }

    /// What it does to a kind it owns but reads only the metadata of.
    pub(crate) fn owned_metadata<K: Kind>() -> Self
    where
        Metadata<K>: Kind,
    {
        Self::on::<K>("", WRITE)
    }
}

/// The kinds that are reconciled, in words: those whose finalizers are minded.
pub(crate) fn reconciled(rules: &[Rule]) -> String {
    let kind = |rule: &Rule| {
        let resource = rule.resource.strip_suffix("/finalizers")?;
        Some(format!("{resource}.{}", rule.group).trim_end_matches('.').to_owned())
    };
    let kinds: BTreeSet<String> = rules.iter().filter_map(kind).collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") }
}

/// Joins rules on the same resource, in order of group and resource.
pub(crate) fn merge(rules: &[Rule]) -> BTreeMap<(String, String), (BTreeSet<&'static str>, bool)> {
    let mut merged = BTreeMap::new();
    for rule in rules {
        let id = (rule.group.clone(), rule.resource.clone());
        let (verbs, _) = merged.entry(id).or_insert_with(|| (BTreeSet::new(), rule.is_namespaced));
        verbs.extend(rule.verbs);
    }
    merged
}
