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

/// The groups of Kubernetes' own kinds, without versions. Others that end in `k8s.io` belong to projects beside it, such as
/// the Gateway API or volume snapshots, and their kinds are defined like anybody's.
const BUILT_IN_GROUPS: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Is this a kind of somebody's own, not one of Kubernetes'?
pub(crate) fn is_custom<K: Kind>() -> bool {
    !BUILT_IN_GROUPS.contains(&&*K::group(&()))
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
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use k8s_openapi::api::networking::v1::Ingress;

    use super::*;

    #[test]
    fn a_target_is_seen_from_its_referrer() {
        let seen = |target: Target| target.key::<ConfigMap>("here").to_string();
        assert_eq!(seen("x".into()), "configmaps/here/x");
        assert_eq!(seen((&"x".to_owned()).into()), "configmaps/here/x");
        assert_eq!(seen(("there", "x").into()), "configmaps/there/x");
        assert_eq!(Target::from("x").key::<Node>("here").to_string(), "nodes/x");
    }

    #[derive(kube::CustomResource, Serialize, serde::Deserialize, Clone, Debug, schemars::JsonSchema)]
    #[kube(group = "gateway.networking.k8s.io", version = "v1", kind = "Gateway", namespaced)]
    struct GatewaySpec {}

    #[derive(kube::CustomResource, Serialize, serde::Deserialize, Clone, Debug, schemars::JsonSchema)]
    #[kube(group = "snapshot.storage.k8s.io", version = "v1", kind = "VolumeSnapshot", namespaced)]
    struct VolumeSnapshotSpec {}

    #[test]
    fn kinds_of_projects_beside_kubernetes_are_not_its_own() {
        assert!(is_custom::<Gateway>() && is_custom::<VolumeSnapshot>());
        assert!(!is_custom::<ConfigMap>() && !is_custom::<Deployment>() && !is_custom::<Ingress>());
    }
}
