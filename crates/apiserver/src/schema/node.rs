//! The nodes of a schema. Data only: each walk over them is a file of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::rules::Rules;

/// One node: what a value at this place may be.
#[derive(Debug, Default)]
pub struct Schema {
    /// Its type.
    pub kind: Kind,
    /// May it be `null`?
    pub nullable: bool,
    /// What an absent value becomes.
    pub default: Option<Value>,
    /// Keep fields the schema does not name (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// A whole object with apiVersion, kind and metadata stands here (`x-kubernetes-embedded-resource`).
    pub embedded_resource: bool,
    /// Constraints on the value and all below it; at the root of custom kinds only.
    pub rules: Option<Box<Rules>>,
}

/// The type of a value.
#[derive(Debug, Default)]
pub enum Kind {
    /// Anything at all: untyped fields, raw extensions, preserved subtrees.
    #[default]
    Any,
    /// An object or a map.
    Object(Object),
    /// A list of items.
    Array(Property),
    /// Text, with its format (`date-time`, `byte`, `quantity` …) or an empty one.
    String(Box<str>),
    /// A whole number.
    Integer(Integer),
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// A whole number or text (`x-kubernetes-int-or-string`).
    IntOrString,
}

/// The width of a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integer {
    /// 32 bits.
    Int32,
    /// 64 bits, or no format given.
    Int64,
}

/// An object with named properties, or a map, or (in custom kinds) both.
#[derive(Debug, Default)]
pub struct Object {
    /// Named properties.
    pub properties: BTreeMap<Box<str>, Property>,
    /// The values of all other keys, when the object is a map.
    pub additional: Option<Box<Property>>,
    /// Properties that must be present.
    pub required: Vec<Box<str>>,
    /// Properties with a default, in custom kinds: an object is asked for these alone, not for all it may have.
    pub defaulted: Vec<Box<str>>,
}

/// A place below a node: its schema, and how values at it merge.
#[derive(Debug)]
pub struct Property {
    /// What may stand there.
    pub schema: Ref,
    /// How it merges: facts of the field and of its type, already combined.
    pub merge: Merge,
    /// When Kubernetes writes it; always [`Presence::Optional`] in custom kinds.
    pub presence: Presence,
}

impl Property {
    /// A place that merges by default and is written when it is there.
    pub fn new(schema: impl Into<Ref>) -> Self {
        Self { schema: schema.into(), merge: Merge::default(), presence: Presence::Optional }
    }
}

/// When Kubernetes' own types write a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// When it was given.
    #[default]
    Optional,
    /// When it is not empty: zero, false, empty text, list and map disappear.
    OmitEmpty,
    /// Always: an absent one is written as zero, an object with its own fields likewise.
    Always,
    /// Always: an absent one is written as null.
    Null,
}

/// A schema written in place, or a named built-in type that may refer to itself.
#[derive(Clone, Debug)]
pub enum Ref {
    /// In place.
    Inline(Arc<Schema>),
    /// By name; built on first use, lives for ever.
    Named(&'static Named),
}

impl From<Schema> for Ref {
    fn from(schema: Schema) -> Self {
        Self::Inline(Arc::new(schema))
    }
}

impl std::ops::Deref for Ref {
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
pub struct Named {
    /// Its full name: `io.k8s.api.core.v1.PodSpec`.
    pub name: &'static str,
    /// Makes the schema on first use.
    pub build: fn(&'static str) -> Schema,
    /// The schema, once made.
    pub schema: OnceLock<Schema>,
}

/// How values at one place merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    /// For lists, in server-side apply.
    pub list: ListType,
    /// For objects and maps, in server-side apply: replaced as a whole.
    pub atomic_map: bool,
    /// In strategic merge patch.
    pub patch: PatchStrategy,
    /// The one key that identifies elements in strategic merge patch.
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

/// How a field merges in strategic merge patch. `merge` and `retainKeys` may stand together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Merge lists instead of replacing them.
    pub merge: bool,
    /// Replace maps instead of merging them.
    pub replace: bool,
    /// Honour `$retainKeys`.
    pub retain_keys: bool,
}
