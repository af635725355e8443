//! What the runtime asks of an object type, and how it names objects: nothing beyond what `#[derive(CustomResource)]`
//! and k8s-openapi already give.

use std::fmt::Debug;

use homeostat_core::{Key, Revision};
use kube::Resource;
use kube::core::metadata::PartialObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// An object type: any `CustomResource`, any type of k8s-openapi, or only the metadata of one ([`Metadata`]).
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

/// Only the metadata of a kind: a tenth of the memory when nobody reads the rest.
pub type Metadata<K> = PartialObjectMeta<K>;

/// The key of an object of this kind; `namespace` is empty for cluster-scoped kinds.
pub fn key<K: Kind>(namespace: &str, name: &str) -> Key {
    Key::new(&K::group(&()), &K::plural(&()), namespace, name)
}

/// The key of this object.
pub fn key_of<K: Kind>(object: &K) -> Key {
    let meta = object.meta();
    key::<K>(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// `group/resource`; only the resource in the core group.
pub(crate) fn resource_of<K: Kind>() -> String {
    resource(&K::group(&()), &K::plural(&()))
}

/// The same of a kind whose type is not at hand.
pub(crate) fn resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{group}/{resource}") }
}

/// The object's resourceVersion; zero when it has none or not a number.
pub(crate) fn revision_of<K: Kind>(object: &K) -> Revision {
    parse_revision(object.meta().resource_version.as_deref())
}

/// Kubernetes promises since 1.35 that resourceVersions are numbers that grow; what does not parse is "unknown".
pub(crate) fn parse_revision(text: Option<&str>) -> Revision {
    text.and_then(|text| text.parse().ok()).unwrap_or(Revision::ZERO)
}

/// What a user names another object by: a name in the same namespace, or a namespace and a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The namespace; absent means that of the object that refers (or none, for cluster-scoped kinds).
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl Target {
    /// The key this means, seen from an object in `namespace`.
    pub(crate) fn key<K: Kind>(&self, namespace: &str) -> Key {
        let namespace =
            if is_namespaced::<K>() { self.namespace.as_deref().unwrap_or(namespace) } else { "" };
        key::<K>(namespace, &self.name)
    }
}

/// Does this kind live in namespaces? Compared by name, because kube bounds `Resource::Scope` by no trait.
pub(crate) fn is_namespaced<K: Kind>() -> bool {
    std::any::type_name::<K::Scope>() != std::any::type_name::<kube::core::ClusterResourceScope>()
}

/// Is this a kind of somebody's own, not one of Kubernetes'?
pub(crate) fn is_custom<K: Kind>() -> bool {
    let group = K::group(&());
    group.contains('.') && !group.ends_with(".k8s.io")
}

impl From<String> for Target {
    fn from(name: String) -> Self {
        Self { namespace: None, name }
    }
}

impl From<&str> for Target {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<&String> for Target {
    fn from(name: &String) -> Self {
        name.clone().into()
    }
}

impl<N: Into<String>, M: Into<String>> From<(N, M)> for Target {
    fn from((namespace, name): (N, M)) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Node};

    use super::*;

    #[test]
    fn a_target_is_seen_from_its_referrer() {
        let seen = |target: Target| target.key::<ConfigMap>("here").to_string();
        assert_eq!(seen("x".into()), "configmaps/here/x");
        assert_eq!(seen((&"x".to_owned()).into()), "configmaps/here/x");
        assert_eq!(seen(("there", "x").into()), "configmaps/there/x");
        assert_eq!(Target::from("x").key::<Node>("here").to_string(), "nodes/x");
    }
}
