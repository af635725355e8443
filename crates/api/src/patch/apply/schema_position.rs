//! A position in the schema, used throughout server-side apply: it says whether a value is a leaf, a map or a list.
//!
//! **Invariant:** where the schema does not specify anything, maps merge by field and lists are leaves. At the top of
//! every object, custom or not, `metadata` has the structure that all objects share; no manager owns identity and
//! bookkeeping fields.

use serde_json::Value;

use super::path_step;
use crate::patch::UNDECLARED;
use crate::schema::{
    ListType, MergeRules, ObjectSchema, Presence, Property, Schema, SchemaType, object_meta,
};

/// Fields of `metadata` that no manager owns: fields that only the server writes, and the object's identity.
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

/// A position in the schema of an object.
#[derive(Clone, Copy)]
pub(super) struct SchemaPosition<'s> {
    /// `None` if any value is allowed.
    pub(super) schema: Option<&'s Schema>,
    merge: &'s MergeRules,
    presence: Presence,
    level: PositionLevel,
}

#[derive(Clone, Copy, PartialEq)]
enum PositionLevel {
    Object,
    Metadata,
    Below,
}

/// How a value is split for merging.
#[derive(Clone, Copy)]
pub(super) enum MergeShape {
    /// Not at all.
    Leaf,
    /// By field.
    Map,
    /// By element: scalars, or objects identified by their keys.
    List,
}

impl<'s> SchemaPosition<'s> {
    /// Returns the position of the object itself.
    pub(super) fn root(schema: Option<&'s Schema>) -> Self {
        Self { schema, merge: &UNDECLARED, presence: Presence::Always, level: PositionLevel::Object }
    }

    /// A position for which the schema does not specify anything.
    pub(super) const DEDUCED: Self =
        Self { schema: None, merge: &UNDECLARED, presence: Presence::Optional, level: PositionLevel::Below };

    fn below(property: &'s Property) -> Self {
        Self {
            schema: Some(&property.schema),
            merge: &property.merge,
            presence: property.presence,
            level: PositionLevel::Below,
        }
    }

    /// Returns whether Kubernetes writes this field even into an empty object.
    pub(super) fn is_always_written(&self) -> bool {
        matches!(self.presence, Presence::Always | Presence::Null)
    }

    /// Returns whether managers may own the field with this name.
    pub(super) fn is_tracked(&self, name: &str) -> bool {
        match self.level {
            PositionLevel::Object => name != "apiVersion" && name != "kind",
            PositionLevel::Metadata => !UNOWNED_METADATA.contains(&name),
            PositionLevel::Below => true,
        }
    }

    /// Returns how `value` is split.
    pub(super) fn shape(&self, value: &Value) -> MergeShape {
        match self.schema.map(|schema| &schema.kind) {
            None | Some(SchemaType::Any) if value.is_object() && !self.merge.atomic_map => MergeShape::Map,
            Some(SchemaType::Object(_)) if !self.merge.atomic_map => MergeShape::Map,
            Some(SchemaType::Array(_)) if self.merge.list != ListType::Atomic => MergeShape::List,
            _ => MergeShape::Leaf,
        }
    }

    /// Returns whether the type is unknown, so it may change from value to value.
    pub(super) fn is_deduced(&self) -> bool {
        matches!(self.schema.map(|schema| &schema.kind), None | Some(SchemaType::Any))
    }

    fn object(&self) -> Option<&'s ObjectSchema> {
        match &self.schema?.kind {
            SchemaType::Object(object) => Some(object),
            _ => None,
        }
    }

    /// Returns whether the schema names this field.
    pub(super) fn declares(&self, name: &str) -> bool {
        let is_common =
            self.level == PositionLevel::Object && matches!(name, "apiVersion" | "kind" | "metadata");
        is_common || self.object().is_some_and(|object| object.properties.contains_key(name))
    }

    /// Returns the field with this name; `None` if the schema does not allow it.
    pub(super) fn declared_field(&self, name: &str) -> Option<Self> {
        if self.level == PositionLevel::Object && name == "metadata" {
            let schema = Some(&**object_meta());
            return Some(Self {
                schema,
                level: PositionLevel::Metadata,
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
            || self.level == PositionLevel::Object && matches!(name, "apiVersion" | "kind");
        is_open.then_some(Self::DEDUCED)
    }

    /// Returns the field with this name.
    pub(super) fn field(&self, name: &str) -> Self {
        self.declared_field(name).unwrap_or(Self::DEDUCED)
    }

    /// Returns how the list at this position merges.
    pub(super) fn list_type(&self) -> &'s ListType {
        &self.merge.list
    }

    /// Returns the position of the list's elements.
    pub(super) fn item(&self) -> Self {
        match self.schema.map(|schema| &schema.kind) {
            Some(SchemaType::Array(items)) => Self::below(items),
            _ => Self::DEDUCED,
        }
    }

    /// Returns the step from the list to one of its elements.
    pub(super) fn step(&self, item: &Value) -> Result<String, String> {
        match &self.merge.list {
            ListType::Map(keys) => path_step::of_keys(item, keys, self.item().schema),
            _ => path_step::of_value(item),
        }
    }

    /// Returns the position that a step of a field set leads to; `None` if the schema has no such step here.
    pub(super) fn step_into(&self, step: &str) -> Option<Self> {
        match step.strip_prefix("f:") {
            Some(name) => self.declared_field(name),
            None => Some(self.item()),
        }
    }
}
