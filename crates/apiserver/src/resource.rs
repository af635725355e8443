//! A served kind is one row. Routes, discovery, OpenAPI and tables follow from it; definitions of custom kinds add
//! rows at run time.
//!
//! **Invariant:** what is built in, and what it is called, is decided by the declarations in `kinds` alone. Tables of data about
//! kinds (schema, protobuf, and the first edition's kinds in `migration`) name kinds again; their tests hold them against
//! these rows.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use homeostat_core::Revision;

use crate::kinds;
use crate::kinds::declaration::{Kind, Part};
use crate::schema;
use crate::status::About;
use crate::storage::Storage;

/// One served resource in one version.
#[derive(Clone, Debug)]
pub struct Resource {
    /// API group, empty for core.
    pub group: Box<str>,
    /// API version.
    pub version: Box<str>,
    /// Plural name, as in paths.
    pub plural: Box<str>,
    /// Singular name.
    pub singular: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Kind of the list; empty: `kind` + `List`.
    pub list_kind: Box<str>,
    /// Does it live in namespaces?
    pub namespaced: bool,
    /// Verbs on the resource itself.
    pub verbs: Vec<Box<str>>,
    /// Short names.
    pub short_names: Vec<Box<str>>,
    /// Categories, as `all`.
    pub categories: Vec<Box<str>>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Where it comes from.
    pub source: Source,
}

/// One subresource.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name in paths.
    pub name: Box<str>,
    /// Kind of its body.
    pub kind: Box<str>,
    /// Group of its body; empty group and version: the resource's own.
    pub group: Box<str>,
    /// Version of its body.
    pub version: Box<str>,
    /// Verbs.
    pub verbs: Vec<Box<str>>,
}

/// Where a row comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Compiled in.
    BuiltIn(Known),
    /// A CustomResourceDefinition.
    Custom(Arc<Custom>),
}

/// What is known about a built-in row. Every request asks several times, so each is looked up once.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its declaration.
    pub(crate) kind: &'static Kind,
    /// Its schema; `None`: it has none.
    pub(crate) schema: OnceLock<Option<schema::Ref>>,
}

/// What a definition says about one version of its kind.
#[derive(Debug, Default)]
pub struct Custom {
    /// The schema; `None`: anything goes.
    pub schema: Option<Arc<schema::Schema>>,
    /// The schemas of all versions, this one included: objects are stored in one and shown in another.
    pub schemas: Arc<BTreeMap<Box<str>, Arc<schema::Schema>>>,
    /// The rules the schema states in CEL; `None`: none.
    pub cel: Option<schema::Cel>,
    /// The raw `openAPIV3Schema`, for publishing.
    pub raw_schema: serde_json::Value,
    /// `additionalPrinterColumns` as written.
    pub columns: Vec<serde_json::Value>,
    /// … and compiled, once a table is asked for: all tables share them.
    pub(crate) compiled_columns: OnceLock<Arc<crate::table::CustomColumns>>,
    /// `selectableFields` paths without the leading dot.
    pub selectable_fields: Vec<Box<str>>,
    /// Has it a status subresource?
    pub has_status: bool,
    /// The scale subresource's paths, if any.
    pub scale: Option<Scale>,
    /// The version objects are stored in.
    pub storage_version: Box<str>,
    /// A warning for users of this version; `None`: not deprecated.
    pub deprecation_warning: Option<String>,
    /// Is the definition being deleted?
    pub is_terminating: bool,
    /// Objects written before this revision may be of an earlier schema: they are pruned and defaulted when read.
    pub schema_since: Revision,
}

/// Where a custom kind keeps what its Scale shows.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Path of the wanted number, as `.spec.replicas`.
    pub spec_replicas: String,
    /// Path of the present number.
    pub status_replicas: String,
    /// Path of the selector text, if any.
    pub label_selector: Option<String>,
}

impl Resource {
    /// All built-in rows, in discovery order.
    pub fn built_in() -> Vec<Self> {
        kinds::built_in().into_iter().map(Self::declared).collect()
    }

    fn declared(kind: &'static Kind) -> Self {
        Self {
            group: kind.group.into(),
            version: kind.version.into(),
            plural: kind.plural.into(),
            singular: kind.kind.to_lowercase().into(),
            kind: kind.kind.into(),
            list_kind: "".into(),
            namespaced: kind.namespaced,
            verbs: boxed(kind.verbs),
            short_names: boxed(kind.short_names),
            categories: boxed(kind.categories),
            subresources: kind.subresources.iter().map(|part| Subresource::declared(kind, part)).collect(),
            source: Source::BuiltIn(Known { kind, schema: OnceLock::new() }),
        }
    }

    /// The declaration, for built-in kinds.
    pub(crate) fn declaration(&self) -> Option<&'static Kind> {
        match &self.source {
            Source::BuiltIn(known) => Some(known.kind),
            Source::Custom(_) => None,
        }
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> String {
        if self.list_kind.is_empty() { format!("{}List", self.kind) } else { self.list_kind.to_string() }
    }

    /// Its schema; `None`: anything goes.
    pub(crate) fn schema(&self) -> Option<schema::Ref> {
        match &self.source {
            Source::Custom(custom) => custom.schema.clone().map(schema::Ref::Inline),
            Source::BuiltIn(known) => {
                let make = || schema::built_in(&self.group, &self.version, &self.kind);
                known.schema.get_or_init(make).clone()
            }
        }
    }

    /// What users of this version are warned of.
    pub fn deprecation_warning(&self) -> Option<&str> {
        match &self.source {
            Source::Custom(custom) => custom.deprecation_warning.as_deref(),
            Source::BuiltIn(known) => known.kind.deprecation,
        }
    }

    /// Where its objects are kept: one place for all versions, and for the events of both groups.
    pub(crate) fn storage(&self) -> Storage<'_> {
        match &self.source {
            Source::Custom(_) => Storage::Custom(&self.group, &self.plural),
            Source::BuiltIn(known) => known.kind.storage(),
        }
    }

    /// Is it defined by a CustomResourceDefinition?
    pub fn is_custom(&self) -> bool {
        matches!(self.source, Source::Custom(_))
    }

    /// The definition, for custom kinds.
    pub fn custom(&self) -> Option<&Custom> {
        match &self.source {
            Source::BuiltIn(_) => None,
            Source::Custom(custom) => Some(custom),
        }
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| &*sub.name == name)
    }

    /// Is the verb served on the resource itself?
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| &**one == verb)
    }

    /// Names it in a refusal.
    pub fn about<'a>(&'a self, name: &'a str) -> About<'a> {
        About { group: &self.group, resource: &self.plural, name }
    }
}

impl Subresource {
    fn declared(kind: &Kind, part: &Part) -> Self {
        let (group, version, body) = part.body;
        let body = if body.is_empty() { kind.kind } else { body };
        Self {
            name: part.name.into(),
            kind: body.into(),
            group: group.into(),
            version: version.into(),
            verbs: boxed(part.verbs),
        }
    }
}

fn boxed(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|&text| text.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_reads_and_has_the_kinds_people_use() {
        let rows = Resource::built_in();
        let pods = rows.iter().find(|row| &*row.plural == "pods").expect("pods are served");
        assert!(pods.namespaced && pods.subresource("status").is_some() && pods.allows("watch"));
        assert!(rows.iter().all(|row| row.version.starts_with('v') && !row.version.contains("beta")));
    }
}
