//! Compiles the rules of roles. Aggregated ClusterRoles are resolved here, so their stored `rules` are only for people
//! to read.
//!
//! **Invariant:** rules are stored once, no matter how many aggregated roles select them: an aggregated role is a
//! list of the lists of other roles. A change costs one comparison with each aggregated role, and a walk over the
//! roles that those select.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use homeostat_core::selector::LabelSelector;
use serde::Deserialize;

use super::super::rule::{Rule, comparisons_of_rules};

/// The rules of a role: one list for a plain role, or the lists of all selected roles for an aggregated one.
pub(in crate::auth) type RuleSet = Arc<[Arc<[Rule]>]>;

/// A namespace's roles, by name.
pub(super) type Roles = HashMap<Box<str>, Role>;

/// A role of a namespace.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) rules: RuleSet,
    /// How many comparisons its rules take at most.
    pub(super) comparisons: usize,
}

/// All ClusterRoles, by name.
#[derive(Debug, Default)]
pub(super) struct ClusterRoles {
    all: BTreeMap<Box<str>, ClusterRole>,
    /// The aggregated roles, and the roles that each selects.
    aggregated: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
}

#[derive(Debug)]
struct ClusterRole {
    labels: BTreeMap<String, String>,
    selectors: Vec<LabelSelector>,
    own: Arc<[Rule]>,
    effective: RuleSet,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StoredRole {
    metadata: StoredMetadata,
    rules: Option<Vec<Rule>>,
    aggregation_rule: Option<Aggregation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredMetadata {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Aggregation {
    cluster_role_selectors: Option<Vec<serde_json::Value>>,
}

impl StoredRole {
    /// Returns the role with its rules as they are stored.
    pub(super) fn into_role(self) -> Role {
        let own = Arc::<[Rule]>::from(self.rules.unwrap_or_default());
        Role { comparisons: comparisons_of_rules(&own), rules: Arc::new([own]) }
    }
}

impl ClusterRole {
    fn new(stored: StoredRole) -> Self {
        let StoredRole { metadata, rules, aggregation_rule } = stored;
        let selectors = aggregation_rule.and_then(|rule| rule.cluster_role_selectors).unwrap_or_default();
        // A selector that cannot be parsed selects nothing, but the role remains an aggregated one.
        let selectors = selectors
            .iter()
            .map(|one| LabelSelector::from_json(one).unwrap_or_else(|_| LabelSelector::nothing()))
            .collect();
        let own = Arc::<[Rule]>::from(rules.unwrap_or_default());
        let effective = Arc::new([Arc::clone(&own)]);
        Self { labels: metadata.labels.unwrap_or_default(), selectors, own, effective }
    }

    fn is_aggregated(&self) -> bool {
        !self.selectors.is_empty()
    }

    fn selects(&self, other: &Self) -> bool {
        let label = |key: &str| other.labels.get(key).map(|value| &**value);
        self.selectors.iter().any(|selector| selector.matches(label))
    }
}

impl ClusterRoles {
    /// Adds, replaces or removes a role. Aggregated roles are up to date again after [`resolve`](Self::resolve).
    pub(super) fn replace(&mut self, name: &str, new: Option<StoredRole>) {
        let new = new.map(ClusterRole::new);
        for (aggregated, selected) in &mut self.aggregated {
            let is_selected =
                new.as_ref().is_some_and(|new| self.all.get(aggregated).is_some_and(|by| by.selects(new)));
            if is_selected {
                selected.insert(name.into());
            } else {
                selected.remove(name);
            }
        }
        self.aggregated.remove(name);
        let Some(new) = new else {
            self.all.remove(name);
            return;
        };
        if new.is_aggregated() {
            let selected = self.all.iter().filter(|(_, other)| new.selects(other));
            self.aggregated.insert(name.into(), selected.map(|(name, _)| name.clone()).collect());
        }
        self.all.insert(name.into(), new);
    }

    /// Gives every aggregated role the rules of the roles that it selects, directly or through other aggregated ones.
    pub(super) fn resolve(&mut self) {
        let gathered =
            self.aggregated.keys().map(|name| (name.clone(), self.gather(name))).collect::<Vec<_>>();
        for (name, rules) in gathered {
            if let Some(role) = self.all.get_mut(&name) {
                role.effective = rules;
            }
        }
    }

    fn gather(&self, name: &str) -> RuleSet {
        let mut seen = BTreeSet::from([name]);
        let mut open = vec![name];
        let mut rules = Vec::new();
        while let Some(name) = open.pop() {
            match self.aggregated.get(name) {
                Some(selected) => {
                    open.extend(selected.iter().map(|one| &**one).filter(|one| seen.insert(*one)));
                }
                None => rules.extend(self.all.get(name).map(|role| Arc::clone(&role.own))),
            }
        }
        rules.into()
    }

    /// Returns the rules of a role, if it exists.
    pub(super) fn rules(&self, name: &str) -> Option<&RuleSet> {
        self.all.get(name).map(|role| &role.effective)
    }
}
