//! Says what the runtime requires of an object type, and how it names objects. It requires nothing beyond what
//! `#[derive(CustomResource)]` and k8s-openapi provide.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use homeostat_core::{Key, Revision};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use kube::core::Request as Path;
use kube::core::metadata::PartialObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) mod decoded_objects;
pub(crate) mod definition;
pub(crate) mod object;

pub use decoded_objects::DecodedObjects;
use object::Object;

/// An object type: any `CustomResource`, any k8s-openapi type, or only the metadata of one ([`Metadata`]).
pub trait Kind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

/// Only the metadata of a kind: it takes a tenth of the memory if the rest is not needed.
pub type Metadata<K> = PartialObjectMeta<K>;

/// The facts known about a kind without its type: its names, and how its objects are decoded. One per kind, for the
/// life of the process.
pub(crate) struct KindInfo {
    pub(crate) type_id: TypeId,
    /// The type that holds only the metadata of this kind.
    pub(crate) metadata_type_id: TypeId,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) api_version: String,
    /// `group/resource`; only the resource in the core group.
    pub(crate) resource: String,
    pub(crate) is_namespaced: bool,
    /// Whether it is a custom kind rather than one of Kubernetes' own.
    pub(crate) is_custom: bool,
    /// Whether only metadata is requested.
    pub(crate) is_metadata_only: bool,
    /// Decodes an object from JSON. This is the only place that compiles the `Deserialize` of a kind, so it is compiled
    /// once.
    pub(crate) decode: fn(&str) -> serde_json::Result<Arc<Object>>,
}

static KINDS: RwLock<BTreeMap<TypeId, &'static KindInfo>> = RwLock::new(BTreeMap::new());

/// Returns the facts known about a kind without its type.
pub(crate) fn info<K: Kind>() -> &'static KindInfo {
    find_registered(TypeId::of::<K>()).unwrap_or_else(|| {
        let (group, plural) = (K::group(&()).into_owned(), K::plural(&()).into_owned());
        register(KindInfo {
            type_id: TypeId::of::<K>(),
            metadata_type_id: TypeId::of::<Metadata<K>>(),
            kind: K::kind(&()).into_owned(),
            api_version: K::api_version(&()).into_owned(),
            resource: resource_name(&group, &plural),
            is_namespaced: is_namespaced::<K>(),
            is_custom: is_custom_group(&group),
            is_metadata_only: K::metadata_api(),
            decode: decode::<K>,
            group,
            plural,
        })
    })
}

fn find_registered(id: TypeId) -> Option<&'static KindInfo> {
    KINDS.read().unwrap_or_else(PoisonError::into_inner).get(&id).copied()
}

/// Keeps the description of a kind forever. Kinds are types of the program, so the leaked memory is bounded.
fn register(info: KindInfo) -> &'static KindInfo {
    let mut kinds = KINDS.write().unwrap_or_else(PoisonError::into_inner);
    kinds.entry(info.type_id).or_insert_with(|| Box::leak(Box::new(info)))
}

fn decode<K: Kind>(text: &str) -> serde_json::Result<Arc<Object>> {
    Ok(Arc::new(serde_json::from_str::<K>(text)?))
}

impl KindInfo {
    /// Returns the key of an object of this kind; `namespace` is empty for cluster-scoped kinds.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> Key {
        Key::new(&self.group, &self.plural, namespace, name)
    }

    /// Returns the key of the object of this kind with this metadata.
    pub(crate) fn key_of(&self, meta: &ObjectMeta) -> Key {
        self.key(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// Returns the key that a target refers to, seen from an object in `namespace`.
    pub(crate) fn target_key(&self, target: &ObjectName, namespace: &str) -> Key {
        let namespace =
            if self.is_namespaced { target.namespace.as_deref().unwrap_or(namespace) } else { "" };
        self.key(namespace, &target.name)
    }

    /// Returns the path of the objects of this kind in a namespace; without a namespace, the path of all of them.
    pub(crate) fn path(&self, namespace: Option<&str>) -> Path {
        let group = if self.group.is_empty() { "api" } else { "apis" };
        let namespaces = namespace.map(|name| format!("namespaces/{name}/")).unwrap_or_default();
        Path::new(format!("/{group}/{}/{namespaces}{}", self.api_version, self.plural))
    }

    /// Returns the path of the objects of this kind in the namespace of `key`.
    pub(crate) fn path_beside(&self, key: &Key) -> Path {
        self.path(Some(key.namespace()).filter(|namespace| !namespace.is_empty()))
    }

    /// Returns the reference by which an event names an object.
    pub(crate) fn object_reference(&self, meta: &ObjectMeta) -> ObjectReference {
        ObjectReference {
            api_version: Some(self.api_version.clone()),
            kind: Some(self.kind.clone()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            ..ObjectReference::default()
        }
    }

    /// Returns the reference by which a dependent names an object; `None` if it has no uid.
    pub(crate) fn owner_reference(&self, meta: &ObjectMeta) -> Option<OwnerReference> {
        Some(OwnerReference {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            ..OwnerReference::default()
        })
    }

    /// Returns whether this is the same kind, whichever part of its objects is kept.
    pub(crate) fn is_same_kind(&self, other: &Self) -> bool {
        self.kind == other.kind && self.group == other.group
    }
}

/// Creates an object, or a part of one, from a JSON value.
///
/// Does what `serde_json::from_value` does. It generates less code: the runtime reads every object from text, so a
/// kind's `Deserialize` is compiled once instead of twice (a Pod's takes half a megabyte).
pub fn from_json<T: DeserializeOwned>(value: &serde_json::Value) -> serde_json::Result<T> {
    serde_json::from_str(&value.to_string())
}

/// Returns the key of an object of this kind; `namespace` is empty for cluster-scoped kinds.
pub fn key<K: Kind>(namespace: &str, name: &str) -> Key {
    Key::new(&K::group(&()), &K::plural(&()), namespace, name)
}

/// Returns the key of this object.
pub fn key_of<K: Kind>(object: &K) -> Key {
    let meta = object.meta();
    key::<K>(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// Returns `group/resource`; only the resource in the core group.
pub(crate) fn resource_of<K: Kind>() -> String {
    info::<K>().resource.clone()
}

/// Returns `group/resource` of a kind whose type is not known; only the resource in the core group.
pub(crate) fn resource_name(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{group}/{resource}") }
}

/// Returns the object's resourceVersion; zero if it has none or it is not a number.
pub(crate) fn revision_of<K: Kind>(object: &K) -> Revision {
    parse_revision(object.meta().resource_version.as_deref())
}

/// Parses a resourceVersion; a text that is not a number becomes zero, which means "unknown". Since 1.35, Kubernetes
/// guarantees that they are increasing numbers.
pub(crate) fn parse_revision(text: Option<&str>) -> Revision {
    text.and_then(|text| text.parse().ok()).unwrap_or(Revision::ZERO)
}

/// Turns the name of an operator or a host into one that Kubernetes accepts for an object: lower case, with letters or
/// digits at both ends.
pub(crate) fn object_name(name: &str) -> String {
    let clean = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
    let name: String = name.to_lowercase().chars().map(clean).collect();
    name.trim_matches(['.', '-']).to_owned()
}

/// The way in which a user names another object: a name in the same namespace, or a namespace and a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The namespace; absent means the namespace of the referring object (or none, for cluster-scoped kinds).
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
}

impl ObjectName {
    /// Returns the key that this refers to, seen from an object in `namespace`.
    #[cfg(test)]
    fn key<K: Kind>(&self, namespace: &str) -> Key {
        info::<K>().target_key(self, namespace)
    }
}

/// Returns whether this kind is namespaced. The scope is compared by name, because kube does not bound
/// `Resource::Scope` by any trait.
fn is_namespaced<K: Kind>() -> bool {
    std::any::type_name::<K::Scope>() != std::any::type_name::<kube::core::ClusterResourceScope>()
}

/// The groups of Kubernetes' own kinds, without versions. Others that end in `k8s.io` belong to other projects, such as
/// the Gateway API or volume snapshots, and their kinds are defined like anyone else's.
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

/// Returns whether this group holds custom kinds rather than Kubernetes' own.
fn is_custom_group(group: &str) -> bool {
    !BUILT_IN_GROUPS.contains(&group)
}

impl From<String> for ObjectName {
    fn from(name: String) -> Self {
        Self { namespace: None, name }
    }
}

impl From<&str> for ObjectName {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<&String> for ObjectName {
    fn from(name: &String) -> Self {
        name.clone().into()
    }
}

impl<N: Into<String>, M: Into<String>> From<(N, M)> for ObjectName {
    fn from((namespace, name): (N, M)) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use k8s_openapi::api::networking::v1::Ingress;
    use kube::api::ListParams;

    use super::*;

    #[test]
    fn a_target_is_seen_from_its_referrer() {
        let seen = |target: ObjectName| target.key::<ConfigMap>("here").to_string();
        assert_eq!(seen("x".into()), "configmaps/here/x");
        assert_eq!(seen((&"x".to_owned()).into()), "configmaps/here/x");
        assert_eq!(seen(("there", "x").into()), "configmaps/there/x");
        assert_eq!(ObjectName::from("x").key::<Node>("here").to_string(), "nodes/x");
    }

    #[test]
    fn names_are_fit_for_objects() {
        for (name, expected) in [("web.demo.dev", "web.demo.dev"), ("My Web!", "my-web"), ("_a_", "a")] {
            assert_eq!(object_name(name), expected);
        }
    }

    #[test]
    fn names_are_those_of_the_type() {
        fn check<K: Kind>() {
            let (info, mut meta) = (info::<K>(), ObjectMeta::default());
            for namespace in [None, Some("here")] {
                let built = info.path(namespace).list(&ListParams::default()).expect("a request");
                assert_eq!(built.uri().path(), K::url_path(&(), namespace));
            }
            assert_eq!(info.owner_reference(&meta), None);
            (meta.name, meta.uid) = (Some("x".into()), Some("u".into()));
            let owner = info.owner_reference(&meta).expect("it has a uid");
            assert_eq!((&*owner.api_version, &*owner.kind), (&*K::api_version(&()), &*K::kind(&())));
        }
        check::<ConfigMap>();
        check::<Node>();
        check::<Deployment>();
        check::<Metadata<Gateway>>();
        assert!(info::<Metadata<Node>>().is_metadata_only && !info::<Node>().is_metadata_only);
    }

    #[derive(kube::CustomResource, Serialize, serde::Deserialize, Clone, Debug, schemars::JsonSchema)]
    #[kube(group = "gateway.networking.k8s.io", version = "v1", kind = "Gateway", namespaced)]
    struct GatewaySpec {}

    #[derive(kube::CustomResource, Serialize, serde::Deserialize, Clone, Debug, schemars::JsonSchema)]
    #[kube(group = "snapshot.storage.k8s.io", version = "v1", kind = "VolumeSnapshot", namespaced)]
    struct VolumeSnapshotSpec {}

    #[test]
    fn kinds_of_projects_beside_kubernetes_are_not_its_own() {
        assert!(info::<Gateway>().is_custom && info::<VolumeSnapshot>().is_custom);
        let own = [info::<ConfigMap>(), info::<Deployment>(), info::<Ingress>()];
        assert!(own.iter().all(|kind| !kind.is_custom));
    }
}
