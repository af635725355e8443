//! Decides which names of a definition are free in its group, and which conflict is reported.
//!
//! Kubernetes compares a definition only with other definitions: a definition of `clusterrolebindings` in the group of
//! the built-in kind is established there, and requests for it get a 404. Here the conditions are accurate: names of
//! built-in kinds are taken in their group, and a definition in such a group is not established.
//!
//! Plural, singular and short names share one set of names; kinds and list kinds share another.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::object::meta;
use crate::resource::Resource;

/// The names that are taken in a definition's group.
#[derive(Debug, Default)]
pub struct TakenNames {
    /// Names of other definitions. A definition keeps a name that was accepted earlier.
    by_others: NameSets,
    /// Names of built-in kinds. They are never available, not even to a definition that had them earlier.
    by_built_in: NameSets,
    /// Whether the group has built-in kinds. Nothing else is served in such a group.
    pub(super) is_built_in_group: bool,
}

#[derive(Debug, Default)]
struct NameSets {
    /// Plural, singular and short names.
    resources: BTreeSet<String>,
    /// Kinds and list kinds.
    kinds: BTreeSet<String>,
}

impl NameSets {
    fn has(&self, sort: NameUse, name: &str) -> bool {
        match sort {
            NameUse::Resource => self.resources.contains(name),
            NameUse::Kind => self.kinds.contains(name),
        }
    }
}

/// What a name is used for.
#[derive(Clone, Copy)]
enum NameUse {
    Resource,
    Kind,
}

/// A field of `spec.names` that holds one name: the field, its use, and the reason reported for a conflict.
type NameField = (&'static str, NameUse, &'static str);
const PLURAL: NameField = ("plural", NameUse::Resource, "PluralConflict");
const SINGULAR: NameField = ("singular", NameUse::Resource, "SingularConflict");
const KIND: NameField = ("kind", NameUse::Kind, "KindConflict");
const LIST_KIND: NameField = ("listKind", NameUse::Kind, "ListKindConflict");

impl TakenNames {
    /// Returns the names that built-in kinds have in this definition's group.
    pub fn by_built_in(definition: &Value, rows: &[Arc<Resource>]) -> Self {
        let mut taken = Self::default();
        let group = group(definition);
        for row in rows.iter().filter(|row| !row.is_custom() && &*row.group == group) {
            taken.is_built_in_group = true;
            let short = row.short_names.iter().map(ToString::to_string);
            taken
                .by_built_in
                .resources
                .extend(short.chain([row.plural.to_string(), row.singular.to_string()]));
            taken.by_built_in.kinds.extend([row.kind.to_string(), row.list_kind()]);
        }
        taken
    }

    /// Adds the names of another definition if it belongs to the same group. A definition is named after its plural
    /// and its group, so most definitions need not be read.
    pub fn add(&mut self, definition: &Value, other: &str, read: impl FnOnce() -> Value) {
        let is_of_group = other.split_once('.').is_some_and(|(_, of)| of == group(definition));
        if is_of_group && other != meta::name(definition) {
            self.add_accepted(&read()["status"]["acceptedNames"]);
        }
    }

    fn add_accepted(&mut self, names: &Value) {
        let text = |field: &str| names[field].as_str().map(ToOwned::to_owned);
        let short = short_names(names).map(ToOwned::to_owned);
        self.by_others.resources.extend(short.chain(text("plural")).chain(text("singular")));
        self.by_others.kinds.extend(text("kind").into_iter().chain(text("listKind")));
    }
}

fn group(definition: &Value) -> &str {
    definition["spec"]["group"].as_str().unwrap_or_default()
}

fn short_names(names: &Value) -> impl Iterator<Item = &str> {
    names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// The reason and message that say why names are not accepted.
pub(super) type NameConflict = (&'static str, String);

/// Returns the accepted names, together with every requested name that is free, and the last conflict in Kubernetes'
/// order of checks.
pub(super) fn merge_names(
    names: &Value,
    accepted: Map<String, Value>,
    taken: &TakenNames,
) -> (Map<String, Value>, Option<NameConflict>) {
    let mut merge = NamesMerge { names, taken, accepted, conflict: None };
    merge.take(PLURAL);
    merge.take(SINGULAR);
    merge.take_short();
    merge.take(KIND);
    merge.take(LIST_KIND);
    merge.put_list("categories");
    for (field, ..) in [PLURAL, KIND] {
        merge.accepted.entry(field).or_insert("".into());
    }
    (merge.accepted, merge.conflict)
}

struct NamesMerge<'a> {
    names: &'a Value,
    taken: &'a TakenNames,
    accepted: Map<String, Value>,
    conflict: Option<NameConflict>,
}

impl NamesMerge<'_> {
    fn take(&mut self, (field, sort, reason): NameField) {
        let Some(name) = self.names[field].as_str() else { return };
        let is_ours = self.accepted.get(field).is_some_and(|accepted| accepted == name);
        if self.taken.by_built_in.has(sort, name) {
            self.accepted.remove(field);
            self.refuse(reason, name);
        } else if !is_ours && self.taken.by_others.has(sort, name) {
            self.refuse(reason, name);
        } else {
            self.accepted.insert(field.into(), name.into());
        }
    }

    fn take_short(&mut self) {
        let is_taken = |names: &NameSets, name: &str| names.has(NameUse::Resource, name);
        let clash = short_names(self.names)
            .find(|name| is_taken(&self.taken.by_others, name) || is_taken(&self.taken.by_built_in, name));
        match clash {
            Some(name) => self.refuse("ShortNamesConflict", name),
            None => self.put_list("shortNames"),
        }
    }

    fn refuse(&mut self, reason: &'static str, name: &str) {
        self.conflict = Some((reason, format!("{name:?} is already in use")));
    }

    fn put_list(&mut self, field: &str) {
        match self.names[field].as_array() {
            Some(list) if !list.is_empty() => self.accepted.insert(field.into(), list.clone().into()),
            _ => self.accepted.remove(field),
        };
    }
}
