//! A served kind is one row. Routes, discovery, OpenAPI and tables follow from it; definitions of custom kinds add
//! rows at run time.
//!
//! **Invariant:** what is built in, and what it is called, is decided by `facts/resources.json` alone. Tables with more facts
//! about kinds (strategy, columns, schema, protobuf, and the first edition's kinds in `migration`) name kinds again; their tests
//! hold them against these rows.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use homeostat_core::Revision;
use serde::Deserialize;

use crate::kinds::strategy::Strategy;
use crate::status::About;
use crate::storage::Storage;

/// The built-in rows: facts about the v1.36 API, generally available versions only.
const BUILT_IN: &str = include_str!("../facts/resources.json");

/// One served resource in one version.
#[derive(Clone, Debug, Deserialize)]
pub struct Resource {
    /// API group, empty for core.
    pub group: Box<str>,
    /// API version.
    pub version: Box<str>,
    /// Plural name, as in paths.
    #[serde(rename = "resource")]
    pub plural: Box<str>,
    /// Singular name.
    #[serde(rename = "singularName")]
    pub singular: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Kind of the list; empty: `kind` + `List`.
    #[serde(default, rename = "listKind")]
    pub list_kind: Box<str>,
    /// Does it live in namespaces?
    pub namespaced: bool,
    /// Verbs on the resource itself.
    pub verbs: Vec<Box<str>>,
    /// Short names.
    #[serde(default, rename = "shortNames")]
    pub short_names: Vec<Box<str>>,
    /// Categories, as `all`.
    #[serde(default)]
    pub categories: Vec<Box<str>>,
    /// Subresources.
    #[serde(default, rename = "sub")]
    pub subresources: Vec<Subresource>,
    /// Where it comes from.
    #[serde(skip)]
    pub source: Source,
}

/// One subresource.
#[derive(Clone, Debug, Deserialize)]
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

impl Default for Source {
    fn default() -> Self {
        Self::BuiltIn(Known::default())
    }
}

/// What the tables of built-in kinds say about a row. Every request asks several times, so each is looked up once.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// How the verbs treat it.
    pub(crate) strategy: OnceLock<&'static Strategy>,
    /// Its schema; `None`: it has none.
    pub(crate) schema: OnceLock<Option<crate::schema::Ref>>,
}

/// What a definition says about one version of its kind.
#[derive(Debug, Default)]
pub struct Custom {
    /// The schema; `None`: anything goes.
    pub schema: Option<Arc<crate::schema::Schema>>,
    /// The schemas of all versions, this one included: objects are stored in one and shown in another.
    pub schemas: Arc<BTreeMap<Box<str>, Arc<crate::schema::Schema>>>,
    /// The rules the schema states in CEL; `None`: none.
    pub cel: Option<crate::schema::Cel>,
    /// The raw `openAPIV3Schema`, for publishing.
    pub raw_schema: serde_json::Value,
    /// `additionalPrinterColumns` as written.
    pub columns: Vec<serde_json::Value>,
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
        serde_json::from_str(BUILT_IN).expect("the built-in table is checked by a test")
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

    /// What users of this version are warned of.
    pub fn deprecation_warning(&self) -> Option<&str> {
        match (&self.source, &*self.group, &*self.kind) {
            (Source::Custom(custom), ..) => custom.deprecation_warning.as_deref(),
            (Source::BuiltIn(_), "", "Endpoints") => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            (Source::BuiltIn(_), "", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        }
    }

    /// Where its objects are kept: one place for all versions, and for the events of both groups.
    pub(crate) fn storage(&self) -> Storage<'_> {
        match (&self.source, &*self.group, &*self.plural) {
            (Source::Custom(_), group, plural) => Storage::Custom(group, plural),
            (Source::BuiltIn(_), "events.k8s.io", "events") => Storage::BuiltIn("", "events"),
            (Source::BuiltIn(_), group, plural) => Storage::BuiltIn(group, plural),
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
