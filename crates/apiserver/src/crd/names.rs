//! The names of a definition: which are free in its group, and which conflict is reported.
//!
//! Kubernetes compares a definition with other definitions only: one of `clusterrolebindings` in the group of the built-in
//! ones is established there, and answered with 404. Here the conditions say what is so: names of built-in kinds are taken in
//! their group, and a definition in such a group is not established.
//!
//! Short names, plural and singular share one set of names, kinds and kinds of lists another.

use std::collections::BTreeSet;

use homeostat_store::Snapshot;
use serde_json::{Map, Value};

use crate::object::{encode, meta};
use crate::registry::Table;

/// Names that others have in the group of a definition.
#[derive(Default)]
pub(super) struct Taken {
    /// Other definitions. A definition keeps a name that it was given before.
    by_others: Names,
    /// Built-in kinds. Their names are never given away, not even to a definition that had them before.
    by_built_in: Names,
    /// Has the group built-in kinds? Then nothing else is served in it.
    pub(super) is_built_in_group: bool,
}

#[derive(Default)]
struct Names {
    /// Plural, singular and short names.
    resources: BTreeSet<String>,
    /// Kinds and kinds of lists.
    kinds: BTreeSet<String>,
}

impl Names {
    fn has(&self, sort: Sort, name: &str) -> bool {
        match sort {
            Sort::Resource => self.resources.contains(name),
            Sort::Kind => self.kinds.contains(name),
        }
    }
}

/// What a name is for.
#[derive(Clone, Copy)]
enum Sort {
    Resource,
    Kind,
}

/// A field of `spec.names` with one name: the field, what it is for, what a conflict is called.
type Field = (&'static str, Sort, &'static str);
const PLURAL: Field = ("plural", Sort::Resource, "PluralConflict");
const SINGULAR: Field = ("singular", Sort::Resource, "SingularConflict");
const KIND: Field = ("kind", Sort::Kind, "KindConflict");
const LIST_KIND: Field = ("listKind", Sort::Kind, "ListKindConflict");

impl Taken {
    /// The names that are taken in the group of this definition.
    pub(super) fn of(definition: &Value, table: &Table, snapshot: &Snapshot) -> Self {
        let mut taken = Self::default();
        let group = definition["spec"]["group"].as_str().unwrap_or_default();
        for row in table.built_in_of(group) {
            taken.is_built_in_group = true;
            let short = row.short_names.iter().map(ToString::to_string);
            taken
                .by_built_in
                .resources
                .extend(short.chain([row.plural.to_string(), row.singular.to_string()]));
            taken.by_built_in.kinds.extend([row.kind.to_string(), row.list_kind()]);
        }
        for entry in snapshot.range(&super::STORAGE.prefix(), "") {
            // A definition is named after its plural and its group, so most need not be read.
            let is_of_group = entry.key.name().split_once('.').is_some_and(|(_, of)| of == group);
            if is_of_group && entry.key.name() != meta::name(definition) {
                taken.add(&encode::decode(entry)["status"]["acceptedNames"]);
            }
        }
        taken
    }

    fn add(&mut self, names: &Value) {
        let text = |field: &str| names[field].as_str().map(ToOwned::to_owned);
        let short = short_names(names).map(ToOwned::to_owned);
        self.by_others.resources.extend(short.chain(text("plural")).chain(text("singular")));
        self.by_others.kinds.extend(text("kind").into_iter().chain(text("listKind")));
    }
}

fn short_names(names: &Value) -> impl Iterator<Item = &str> {
    names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Why names are not accepted: reason and message.
pub(super) type Conflict = (&'static str, String);

/// The accepted names, every free one taken over, and the last conflict in the order in which Kubernetes looks.
pub(super) fn merge_names(
    names: &Value,
    accepted: Map<String, Value>,
    taken: &Taken,
) -> (Map<String, Value>, Option<Conflict>) {
    let mut merge = Merge { names, taken, accepted, conflict: None };
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

struct Merge<'a> {
    names: &'a Value,
    taken: &'a Taken,
    accepted: Map<String, Value>,
    conflict: Option<Conflict>,
}

impl Merge<'_> {
    fn take(&mut self, (field, sort, reason): Field) {
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
        let is_taken = |names: &Names, name: &str| names.has(Sort::Resource, name);
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
