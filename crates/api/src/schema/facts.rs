//! Reads facts about built-in types that the typed API crate does not have: how fields merge, and which fields
//! Kubernetes' own types write when they are empty.
//!
//! The tables are parsed when a type is first built and then dropped, so they take no memory afterwards.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ListType, MergeRules, PatchStrategy, Presence};

const MERGE: &str = include_str!("../../facts/merge_keys.json");
const PRESENCE: &str = include_str!("../../facts/presence.json");

/// The row that describes the type as a whole.
const SELF: &str = "";

/// The facts, borrowed from the text they were read from.
pub(super) struct TypeFacts {
    merge: BTreeMap<&'static str, BTreeMap<&'static str, MergeRow<'static>>>,
    presence: BTreeMap<&'static str, PresenceRow<'static>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct MergeRow<'a> {
    #[serde(default)]
    list_type: &'a str,
    #[serde(default)]
    list_map_keys: Vec<Box<str>>,
    #[serde(default)]
    map_type: &'a str,
    #[serde(default)]
    patch_strategy: &'a str,
    #[serde(default)]
    patch_merge_key: Option<Box<str>>,
}

#[derive(Default, Deserialize)]
struct PresenceRow<'a> {
    #[serde(default, borrow)]
    omit: Vec<&'a str>,
    #[serde(default, borrow)]
    always: Vec<&'a str>,
    #[serde(default, borrow)]
    null: Vec<&'a str>,
}

impl TypeFacts {
    pub(super) fn read() -> Self {
        Self {
            merge: serde_json::from_str(MERGE).expect("the merge table is checked by a test"),
            presence: serde_json::from_str(PRESENCE).expect("the presence table is checked by a test"),
        }
    }

    /// Returns how the field of a type merges, given the named type of its value.
    pub(super) fn merge(&self, owner: &str, field: &str, target: Option<&str>) -> MergeRules {
        let row = self.merge.get(owner).and_then(|rows| rows.get(field));
        let own = target.and_then(|name| self.merge.get(name)).and_then(|rows| rows.get(SELF));
        let mut merge = row.map(MergeRow::to_merge).unwrap_or_default();
        merge.atomic_map |= own.is_some_and(|own| own.map_type == "atomic");
        merge
    }

    /// Returns when Kubernetes writes the field of a type.
    pub(super) fn presence(&self, owner: &str, field: &str) -> Presence {
        let Some(row) = self.presence.get(owner) else { return Presence::Optional };
        if row.omit.contains(&field) {
            Presence::OmitEmpty
        } else if row.always.contains(&field) {
            Presence::Always
        } else if row.null.contains(&field) {
            Presence::Null
        } else {
            Presence::Optional
        }
    }
}

impl MergeRow<'_> {
    fn to_merge(&self) -> MergeRules {
        let list = match self.list_type {
            "set" => ListType::Set,
            "map" => ListType::Map(self.list_map_keys.clone()),
            _ => ListType::Atomic,
        };
        let has = |word: &str| self.patch_strategy.split(',').any(|one| one == word);
        let patch =
            PatchStrategy { merge: has("merge"), replace: has("replace"), retain_keys: has("retainKeys") };
        MergeRules {
            list,
            atomic_map: self.map_type == "atomic",
            patch,
            patch_key: self.patch_merge_key.clone(),
        }
    }
}
