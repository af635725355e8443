//! Defines the structure of a schema. It contains only data: each use of it has its own file.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::constraints::ValueConstraints;

/// One node of a schema: the constraints on one value.
#[derive(Debug, Default)]
pub struct Schema {
    /// Its type.
    pub kind: SchemaType,
    /// Whether it may be `null`.
    pub nullable: bool,
    /// The value of an absent field.
    pub default: Option<Value>,
    /// Whether unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// Whether the value is a whole object with apiVersion, kind and metadata (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// Constraints on the value and everything below it; at the root of custom kinds only.
    pub rules: Option<Box<ValueConstraints>>,
}

/// The type of a value.
#[derive(Debug, Default)]
pub enum SchemaType {
    /// Any value: untyped fields, raw extensions, preserved subtrees.
    #[default]
    Any,
    /// An object or a map.
    Object(ObjectSchema),
    /// A list of items.
    Array(Property),
    /// A string, with its format (`date-time`, `byte`, `quantity` …), which may be empty.
    String(Box<str>),
    /// A whole number.
    Integer(IntegerWidth),
    /// Any numeric value.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or a string (`x-kubernetes-int-or-string`).
    IntOrString,
}

/// The width of a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegerWidth {
    /// 32 bits.
    Int32,
    /// 64 bits, or no format given.
    Int64,
}

/// An object with named properties, or a map, or (in custom kinds) both.
#[derive(Debug, Default)]
pub struct ObjectSchema {
    /// Named properties.
    pub properties: BTreeMap<Box<str>, Property>,
    /// The values of all other keys, when the object is a map.
    pub additional: Option<Box<Property>>,
    /// Properties that must be present.
    pub required: Vec<Box<str>>,
    /// Properties with a default, in custom kinds: defaulting visits only these.
    pub defaulted: Vec<Box<str>>,
}

/// A field, item or map value: its schema, and how it merges.
#[derive(Debug)]
pub struct Property {
    /// The schema of the value.
    pub schema: SchemaRef,
    /// How it merges: the field's facts and its type's facts, combined.
    pub merge: MergeRules,
    /// When Kubernetes writes it; always [`Presence::Optional`] in custom kinds.
    pub presence: Presence,
}

impl Property {
    /// Creates a property that merges in the default way and is written if it is present.
    pub fn new(schema: impl Into<SchemaRef>) -> Self {
        Self { schema: schema.into(), merge: MergeRules::default(), presence: Presence::Optional }
    }
}

/// When Kubernetes' own types write a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// If it is present.
    #[default]
    Optional,
    /// If it is not empty: zero, false, empty strings, lists and maps are omitted.
    OmitEmpty,
    /// Always: an absent field is written as zero, or as an object with its own such fields.
    Always,
    /// Always: an absent field is written as null.
    Null,
}

/// An inline schema, or a named built-in type that may refer to itself.
#[derive(Clone, Debug)]
pub enum SchemaRef {
    /// Defined in place.
    Inline(Arc<Schema>),
    /// Referred to by name; built on first use, never freed.
    Named(&'static NamedSchema),
}

impl From<Schema> for SchemaRef {
    fn from(schema: Schema) -> Self {
        Self::Inline(Arc::new(schema))
    }
}

impl std::ops::Deref for SchemaRef {
    type Target = Schema;

    fn deref(&self) -> &Schema {
        match self {
            Self::Inline(schema) => schema,
            Self::Named(named) => named.schema.get_or_init(|| (named.build)(named.name)),
        }
    }
}

/// A named built-in type.
#[derive(Debug)]
pub struct NamedSchema {
    /// Its full name: `io.k8s.api.core.v1.PodSpec`.
    pub name: &'static str,
    /// Builds the schema on first use.
    pub build: fn(&'static str) -> Schema,
    /// The schema, once built.
    pub schema: OnceLock<Schema>,
}

/// How values of one field merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeRules {
    /// How lists merge in server-side apply.
    pub list: ListType,
    /// Whether objects and maps are replaced as a whole in server-side apply.
    pub atomic_map: bool,
    /// How the field merges in a strategic merge patch.
    pub patch: PatchStrategy,
    /// The key that identifies elements in strategic merge patch.
    pub patch_key: Option<Box<str>>,
}

/// How a list merges in server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// A set of scalars.
    Set,
    /// Objects identified by these keys.
    Map(Vec<Box<str>>),
}

/// How a field merges in strategic merge patch. `merge` and `retainKeys` may be combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Merge lists instead of replacing them.
    pub merge: bool,
    /// Replace maps instead of merging them.
    pub replace: bool,
    /// Honour `$retainKeys`.
    pub retain_keys: bool,
}
