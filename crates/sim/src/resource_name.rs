//! What a kind is called in paths and in the store, without its type.

use std::any::type_name;

use homeostat_core::Prefix;
use homeostat_runtime::Kind;

/// What begins the keys of custom objects in the store.
pub(crate) const CUSTOM: &str = "crd:";

/// The namespace of objects that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// A kind by its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceName {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
}

impl ResourceName {
    /// The names of a kind.
    pub(crate) fn of_kind<K: Kind>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            is_namespaced: type_name::<K::Scope>().ends_with("NamespaceResourceScope"),
        }
    }

    /// The path of the collection in a namespace, or of one object in it.
    pub(crate) fn path(&self, namespace: &str, name: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        };
        let place = if self.is_namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{root}{place}/{}{name}", self.plural)
    }

    /// How people read it: `pages.demo.dev`.
    pub(crate) fn shown(&self) -> String {
        shown(&self.group, &self.plural)
    }

    /// Where its objects are kept: built-in and custom kinds are kept apart, and only one of the two holds any.
    pub(crate) fn prefixes(&self) -> [Prefix; 2] {
        [
            Prefix::resource(&self.group, &self.plural),
            Prefix::resource(&format!("{CUSTOM}{}", self.group), &self.plural),
        ]
    }
}

/// How people read a resource.
pub(crate) fn shown(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}
