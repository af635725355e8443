//! Each served kind is one row. Routes, discovery, OpenAPI and tables follow from it; definitions of custom kinds add
//! rows at run time.
//!
//! Reading order: [`Resource`] (the row), [`declaration`] (the declaration of a built-in kind), [`strategy`] (how the
//! verbs treat it), [`prepare`] (the fields that the server sets), [`value_at`] (how validation reads objects),
//! [`selectable`] (the fields that selectors may name), [`deletion`] (when an object may be removed).
//!
//! **Invariant:** only the declarations in `kinds` decide which kinds are built in, and their names. Tables of data
//! about kinds (schema, protobuf, and the kinds of the first edition in the server's `data_migrations`) repeat the
//! names; their tests compare them with these rows.

pub mod declaration;
pub mod deletion;
pub mod prepare;
pub mod selectable;
pub mod strategy;
pub mod value_at;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use homeostat_core::Revision;

use self::declaration::{BuiltInKind, SubresourceDeclaration};
use crate::printing::CustomColumns;
use crate::schema;
use crate::status::ResourceName;
use crate::storage_identity::ResourceIdentity;

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
    /// Kind of the list; empty means `kind` + `List`.
    pub list_kind: Box<str>,
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// Verbs on the resource itself.
    pub verbs: Vec<Box<str>>,
    /// Short names.
    pub short_names: Vec<Box<str>>,
    /// Categories such as `all`.
    pub categories: Vec<Box<str>>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Where it comes from.
    pub source: KindSource,
    /// The admission plugins that are interested in its objects: a bit for each, set by the server at the first write.
    pub interested_plugins: OnceLock<u32>,
}

/// One subresource.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Its name in paths.
    pub name: Box<str>,
    /// Kind of its body.
    pub kind: Box<str>,
    /// Group of its body; empty group and version mean the resource's own.
    pub group: Box<str>,
    /// Version of its body.
    pub version: Box<str>,
    /// Verbs.
    pub verbs: Vec<Box<str>>,
}

/// Where a row comes from.
#[derive(Clone, Debug)]
pub enum KindSource {
    /// Compiled in.
    BuiltIn(BuiltInRow),
    /// A CustomResourceDefinition.
    Custom(Arc<CustomKind>),
}

/// A built-in row. Every request needs these facts several times, so each is looked up only once.
#[derive(Clone, Debug)]
pub struct BuiltInRow {
    /// Its declaration.
    pub kind: &'static BuiltInKind,
    /// Its schema; `None` if it has none.
    pub(crate) schema: OnceLock<Option<schema::SchemaRef>>,
}

/// One version of a custom kind, as its definition describes it.
#[derive(Debug, Default)]
pub struct CustomKind {
    /// The schema; `None` if there are no constraints.
    pub schema: Option<Arc<schema::Schema>>,
    /// The schemas of all versions, including this one: objects are stored in one version and shown in another.
    pub schemas: Arc<BTreeMap<Box<str>, Arc<schema::Schema>>>,
    /// The CEL rules of the schema; `None` if there are none.
    pub cel: Option<schema::CelRules>,
    /// The raw `openAPIV3Schema`, for publishing.
    pub raw_schema: serde_json::Value,
    /// `additionalPrinterColumns` as written.
    pub columns: Vec<serde_json::Value>,
    /// The same columns, compiled once a table is requested: all tables share them.
    pub(crate) compiled_columns: OnceLock<Arc<CustomColumns>>,
    /// `selectableFields` paths without the leading dot.
    pub selectable_fields: Vec<Box<str>>,
    /// Whether it has a status subresource.
    pub has_status: bool,
    /// The scale subresource's paths, if any.
    pub scale: Option<ScalePaths>,
    /// The version objects are stored in.
    pub storage_version: Box<str>,
    /// The webhook that converts objects between versions; `None` if only their `apiVersion` changes.
    pub conversion: Option<Arc<ConversionWebhook>>,
    /// A warning for users of this version; `None` if it is not deprecated.
    pub deprecation_warning: Option<String>,
    /// Whether the definition is being deleted.
    pub is_terminating: bool,
    /// Objects written before this revision may have an earlier schema: they are pruned and defaulted when read.
    pub schema_since: Revision,
}

/// A webhook that converts the objects of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionWebhook {
    /// The name of the definition.
    pub definition: Box<str>,
    /// How to reach it.
    pub client_config: serde_json::Value,
    /// The versions of `ConversionReview` that it understands, most preferred first.
    pub review_versions: Vec<Box<str>>,
    /// The revision of the definition: conversions for an earlier revision may be outdated.
    pub revision: Revision,
}

/// The paths of the values that the Scale of a custom kind shows.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// Path of the desired number, such as `.spec.replicas`.
    pub spec_replicas: String,
    /// Path of the current number.
    pub status_replicas: String,
    /// Path of the selector string, if any.
    pub label_selector: Option<String>,
}

impl Resource {
    /// Returns the row of a declared kind.
    pub(crate) fn declared(kind: &'static BuiltInKind) -> Self {
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
            source: KindSource::BuiltIn(BuiltInRow { kind, schema: OnceLock::new() }),
            interested_plugins: OnceLock::new(),
        }
    }

    /// Returns the declaration of a built-in kind.
    pub fn declaration(&self) -> Option<&'static BuiltInKind> {
        match &self.source {
            KindSource::BuiltIn(known) => Some(known.kind),
            KindSource::Custom(_) => None,
        }
    }

    /// Returns `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the kind of its lists.
    pub fn list_kind(&self) -> String {
        if self.list_kind.is_empty() { format!("{}List", self.kind) } else { self.list_kind.to_string() }
    }

    /// Returns its schema; `None` if there are no constraints.
    pub fn schema(&self) -> Option<schema::SchemaRef> {
        match &self.source {
            KindSource::Custom(custom) => custom.schema.clone().map(schema::SchemaRef::Inline),
            KindSource::BuiltIn(known) => {
                let make = || schema::built_in(&self.group, &self.version, &self.kind);
                known.schema.get_or_init(make).clone()
            }
        }
    }

    /// Returns the warning for users of this version.
    pub fn deprecation_warning(&self) -> Option<&str> {
        match &self.source {
            KindSource::Custom(custom) => custom.deprecation_warning.as_deref(),
            KindSource::BuiltIn(known) => known.kind.deprecation,
        }
    }

    /// Returns where its objects are stored: in one place for all versions, and for the events of both groups.
    pub fn storage(&self) -> ResourceIdentity<'_> {
        match &self.source {
            KindSource::Custom(_) => ResourceIdentity::Custom(&self.group, &self.plural),
            KindSource::BuiltIn(known) => known.kind.storage(),
        }
    }

    /// Returns whether it is defined by a CustomResourceDefinition.
    pub fn is_custom(&self) -> bool {
        matches!(self.source, KindSource::Custom(_))
    }

    /// Returns the definition of a custom kind.
    pub fn custom(&self) -> Option<&CustomKind> {
        match &self.source {
            KindSource::BuiltIn(_) => None,
            KindSource::Custom(custom) => Some(custom),
        }
    }

    /// Returns the subresource with this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| &*sub.name == name)
    }

    /// Returns whether the resource itself supports the verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.iter().any(|one| &**one == verb)
    }

    /// Returns its name for an error.
    pub fn about<'a>(&'a self, name: &'a str) -> ResourceName<'a> {
        ResourceName { group: &self.group, resource: &self.plural, name }
    }
}

impl Subresource {
    fn declared(kind: &BuiltInKind, part: &SubresourceDeclaration) -> Self {
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

    #[test]
    fn the_built_in_table_reads_and_has_the_kinds_people_use() {
        let rows = crate::kinds::built_in_rows();
        let pods = rows.iter().find(|row| &*row.plural == "pods").expect("pods are served");
        assert!(pods.namespaced && pods.subresource("status").is_some() && pods.allows("watch"));
        assert!(rows.iter().all(|row| row.version.starts_with('v') && !row.version.contains("beta")));
    }
}
