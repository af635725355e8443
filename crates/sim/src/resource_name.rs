//! The names of a kind in paths and in the store, without its Rust type.

use std::any::type_name;

use homeostat_core::Prefix;
use homeostat_core::canonical_state::CUSTOM_GROUP_PREFIX;
use homeostat_core::request_target::shown_resource;
use homeostat_runtime::Kind;

/// The namespace of objects that do not name one.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// The names of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceName {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
}

impl ResourceName {
    /// Returns the names of a kind.
    pub(crate) fn of_kind<K: Kind>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            is_namespaced: type_name::<K::Scope>().ends_with("NamespaceResourceScope"),
        }
    }

    /// Returns the path of the collection in a namespace, or of one object in it.
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

    /// Returns the resource as kubectl writes it: `pages.demo.dev`.
    pub(crate) fn shown(&self) -> String {
        shown_resource(&self.group, &self.plural)
    }

    /// Returns the prefixes of its keys in the store: as a built-in and as a custom kind. Only one of them has objects.
    pub(crate) fn prefixes(&self) -> [Prefix; 2] {
        [
            Prefix::resource(&self.group, &self.plural),
            Prefix::resource(&format!("{CUSTOM_GROUP_PREFIX}{}", self.group), &self.plural),
        ]
    }
}
