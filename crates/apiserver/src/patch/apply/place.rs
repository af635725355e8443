//! What stands where in an object, for every walk of server-side apply: is it a leaf, a map or a list of elements?
//!
//! **Invariant:** where the schema says nothing, maps merge by field and lists are leaves. At the top of every object,
//! custom or not, `metadata` has the shape all objects share; identity and bookkeeping fields belong to no manager.

use serde_json::Value;

use super::element;
use crate::patch::UNDECLARED;
use crate::schema::{Kind, ListType, Merge, Object, Presence, Property, Schema, object_meta};

/// Fields of `metadata` that no manager owns: the server's own, and the identity of the object.
const UNOWNED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// A place in an object.
#[derive(Clone, Copy)]
pub(super) struct Place<'s> {
    /// `None`: anything may stand here.
    pub(super) schema: Option<&'s Schema>,
    merge: &'s Merge,
    presence: Presence,
    level: Level,
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
    Below,
}

/// How a value at a place is taken apart.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// Not at all.
    Leaf,
    /// By field.
    Map,
    /// By element: scalars, or objects known by their keys.
    List,
}

impl<'s> Place<'s> {
    /// The object itself.
    pub(super) fn root(schema: Option<&'s Schema>) -> Self {
        Self { schema, merge: &UNDECLARED, presence: Presence::Always, level: Level::Object }
    }

    /// A place of which the schema says nothing.
    pub(super) const DEDUCED: Self =
        Self { schema: None, merge: &UNDECLARED, presence: Presence::Optional, level: Level::Below };

    fn below(property: &'s Property) -> Self {
        Self {
            schema: Some(&property.schema),
            merge: &property.merge,
            presence: property.presence,
            level: Level::Below,
        }
    }

    /// Does Kubernetes write this field even into an empty object?
    pub(super) fn is_always_written(&self) -> bool {
        matches!(self.presence, Presence::Always | Presence::Null)
    }

    /// May managers own the field of this name?
    pub(super) fn is_tracked(&self, name: &str) -> bool {
        match self.level {
            Level::Object => name != "apiVersion" && name != "kind",
            Level::Metadata => !UNOWNED_METADATA.contains(&name),
            Level::Below => true,
        }
    }

    /// How `value` is taken apart.
    pub(super) fn shape(&self, value: &Value) -> Shape {
        match self.schema.map(|schema| &schema.kind) {
            None | Some(Kind::Any) if value.is_object() && !self.merge.atomic_map => Shape::Map,
            Some(Kind::Object(_)) if !self.merge.atomic_map => Shape::Map,
            Some(Kind::Array(_)) if self.merge.list != ListType::Atomic => Shape::List,
            _ => Shape::Leaf,
        }
    }

    /// Is the type not known, so that it may change from value to value?
    pub(super) fn is_deduced(&self) -> bool {
        matches!(self.schema.map(|schema| &schema.kind), None | Some(Kind::Any))
    }

    fn object(&self) -> Option<&'s Object> {
        match &self.schema?.kind {
            Kind::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Does the schema name this field?
    pub(super) fn declares(&self, name: &str) -> bool {
        let is_common = self.level == Level::Object && matches!(name, "apiVersion" | "kind" | "metadata");
        is_common || self.object().is_some_and(|object| object.properties.contains_key(name))
    }

    /// The field of this name; `None`: there may be none.
    pub(super) fn declared_field(&self, name: &str) -> Option<Self> {
        if self.level == Level::Object && name == "metadata" {
            let schema = Some(&**object_meta());
            return Some(Self {
                schema,
                level: Level::Metadata,
                presence: Presence::Always,
                ..Self::DEDUCED
            });
        }
        let Some(object) = self.object() else { return Some(Self::DEDUCED) };
        if let Some(property) = object.properties.get(name).or(object.additional.as_deref()) {
            return Some(Self::below(property));
        }
        let is_open = self.schema.is_some_and(|schema| schema.preserve_unknown)
            || object.properties.is_empty()
            || self.level == Level::Object && matches!(name, "apiVersion" | "kind");
        is_open.then_some(Self::DEDUCED)
    }

    /// The field of this name.
    pub(super) fn field(&self, name: &str) -> Self {
        self.declared_field(name).unwrap_or(Self::DEDUCED)
    }

    /// How the list at this place merges.
    pub(super) fn list_type(&self) -> &'s ListType {
        &self.merge.list
    }

    /// The elements of the list at this place.
    pub(super) fn item(&self) -> Self {
        match self.schema.map(|schema| &schema.kind) {
            Some(Kind::Array(items)) => Self::below(items),
            _ => Self::DEDUCED,
        }
    }

    /// The step from the list at this place to one of its elements.
    pub(super) fn step(&self, item: &Value) -> Result<String, String> {
        match &self.merge.list {
            ListType::Map(keys) => element::of_keys(item, keys, self.item().schema),
            _ => element::of_value(item),
        }
    }

    /// The place a step of a field set leads to; `None`: the schema knows no such step here.
    pub(super) fn step_into(&self, step: &str) -> Option<Self> {
        match step.strip_prefix("f:") {
            Some(name) => self.declared_field(name),
            None => Some(self.item()),
        }
    }
}
