//! Defines the formats of the data folder, and the migrations from older ones.
//!
//! - **0**, the first edition: custom and built-in objects are stored under the same keys, `group/resource/…`.
//! - **1**: custom objects are stored under `crd:group/resource/…`, see `storage`.
//! - **2**: objects that get defaults whenever they are read have a tag (`stored::encode`); before that, their JSON
//!   began with a space.
//!
//! The number applies to the whole data folder, although the store keeps it: a change to any other file format also
//! raises it. The store is opened before anything else in the folder is read.
//!
//! **Invariant:** a step is a pure function of a key and its value, and never changes, since folders with that format
//! exist. It therefore knows the built-in kinds of its edition, not today's.

use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Key;
use homeostat_store::Value;
use homeostat_store::disk::{ContentFormat, KeyMigration, Migration};
use serde::Deserialize;

use crate::stored::encode::NEEDS_DEFAULTS;

/// The current format, for opening the store.
pub const CONTENTS: ContentFormat = ContentFormat { migrations: &[CUSTOM_OBJECTS_APART, TAGS] };

/// From 0 to 1.
const CUSTOM_OBJECTS_APART: Migration =
    Migration::Keys(KeyMigration { new_name: custom_key, moves: is_custom });

/// From 1 to 2.
const TAGS: Migration = Migration::Values(tagged);

/// Replaces the leading space of a value's JSON with the tag that has the same meaning.
fn tagged(_: &Key, value: &Value) -> Option<Value> {
    let rest = value.bytes.strip_prefix(b"{ ")?;
    let bytes = [b"{", rest].concat().into();
    Some(Value { bytes, hole: value.hole.map(|hole| hole - 1), tag: NEEDS_DEFAULTS, view: None })
}

/// Returns the new key of a custom object. In the first edition the events of both groups shared one storage, even
/// for a definition of that name, and the core group has no definitions.
fn custom_key(key: &Key) -> Key {
    let group = match (key.group(), key.resource()) {
        ("", "events") => "events.k8s.io",
        (group, _) => group,
    };
    ResourceIdentity::Custom(group, key.resource()).key(key.namespace(), key.name())
}

/// Returns whether the value belongs to a definition. A definition could have the name of a built-in resource, so an
/// object under that name is built-in only if it has the scope, kind and version that the built-in kind stores.
fn is_custom(key: &Key, bytes: &[u8]) -> bool {
    let row = FIRST_EDITION.iter().find(|row| (row.0, row.1) == (key.group(), key.resource()));
    // The core group has no definitions; everything else in it belongs to the server.
    let Some((group, _, is_namespaced, kind, versions)) = row else { return !key.group().is_empty() };
    if *is_namespaced == key.namespace().is_empty() {
        return true;
    }
    let stored = serde_json::from_slice::<TypeMeta>(bytes).unwrap_or_default();
    let (of, version) = stored.api_version.split_once('/').unwrap_or(("", &stored.api_version));
    stored.kind != *kind || of != *group || !versions.contains(&version)
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TypeMeta {
    api_version: String,
    kind: String,
}

/// The built-in kinds that the first edition stored: group, resource, whether it is namespaced, kind, versions.
// tidy-table: one row for each kind.
const FIRST_EDITION: &[(&str, &str, bool, &str, &[&str])] = &[
    ("", "configmaps", true, "ConfigMap", &["v1"]),
    ("", "endpoints", true, "Endpoints", &["v1"]),
    ("", "events", true, "Event", &["v1"]),
    ("", "limitranges", true, "LimitRange", &["v1"]),
    ("", "namespaces", false, "Namespace", &["v1"]),
    ("", "nodes", false, "Node", &["v1"]),
    ("", "persistentvolumeclaims", true, "PersistentVolumeClaim", &["v1"]),
    ("", "persistentvolumes", false, "PersistentVolume", &["v1"]),
    ("", "pods", true, "Pod", &["v1"]),
    ("", "podtemplates", true, "PodTemplate", &["v1"]),
    ("", "replicationcontrollers", true, "ReplicationController", &["v1"]),
    ("", "resourcequotas", true, "ResourceQuota", &["v1"]),
    ("", "secrets", true, "Secret", &["v1"]),
    ("", "serviceaccounts", true, "ServiceAccount", &["v1"]),
    ("", "services", true, "Service", &["v1"]),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", false, "MutatingAdmissionPolicy", &["v1"]),
    (
        "admissionregistration.k8s.io",
        "mutatingadmissionpolicybindings",
        false,
        "MutatingAdmissionPolicyBinding",
        &["v1"],
    ),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        false,
        "MutatingWebhookConfiguration",
        &["v1"],
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
        false,
        "ValidatingAdmissionPolicy",
        &["v1"],
    ),
    (
        "admissionregistration.k8s.io",
        "validatingadmissionpolicybindings",
        false,
        "ValidatingAdmissionPolicyBinding",
        &["v1"],
    ),
    (
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations",
        false,
        "ValidatingWebhookConfiguration",
        &["v1"],
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions", false, "CustomResourceDefinition", &["v1"]),
    ("apiregistration.k8s.io", "apiservices", false, "APIService", &["v1"]),
    ("apps", "controllerrevisions", true, "ControllerRevision", &["v1"]),
    ("apps", "daemonsets", true, "DaemonSet", &["v1"]),
    ("apps", "deployments", true, "Deployment", &["v1"]),
    ("apps", "replicasets", true, "ReplicaSet", &["v1"]),
    ("apps", "statefulsets", true, "StatefulSet", &["v1"]),
    ("autoscaling", "horizontalpodautoscalers", true, "HorizontalPodAutoscaler", &["v1", "v2"]),
    ("batch", "cronjobs", true, "CronJob", &["v1"]),
    ("batch", "jobs", true, "Job", &["v1"]),
    ("certificates.k8s.io", "certificatesigningrequests", false, "CertificateSigningRequest", &["v1"]),
    ("coordination.k8s.io", "leases", true, "Lease", &["v1"]),
    ("discovery.k8s.io", "endpointslices", true, "EndpointSlice", &["v1"]),
    ("flowcontrol.apiserver.k8s.io", "flowschemas", false, "FlowSchema", &["v1"]),
    (
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        false,
        "PriorityLevelConfiguration",
        &["v1"],
    ),
    ("networking.k8s.io", "ingressclasses", false, "IngressClass", &["v1"]),
    ("networking.k8s.io", "ingresses", true, "Ingress", &["v1"]),
    ("networking.k8s.io", "ipaddresses", false, "IPAddress", &["v1"]),
    ("networking.k8s.io", "networkpolicies", true, "NetworkPolicy", &["v1"]),
    ("networking.k8s.io", "servicecidrs", false, "ServiceCIDR", &["v1"]),
    ("node.k8s.io", "runtimeclasses", false, "RuntimeClass", &["v1"]),
    ("policy", "poddisruptionbudgets", true, "PodDisruptionBudget", &["v1"]),
    ("rbac.authorization.k8s.io", "clusterrolebindings", false, "ClusterRoleBinding", &["v1"]),
    ("rbac.authorization.k8s.io", "clusterroles", false, "ClusterRole", &["v1"]),
    ("rbac.authorization.k8s.io", "rolebindings", true, "RoleBinding", &["v1"]),
    ("rbac.authorization.k8s.io", "roles", true, "Role", &["v1"]),
    ("resource.k8s.io", "deviceclasses", false, "DeviceClass", &["v1"]),
    ("resource.k8s.io", "resourceclaims", true, "ResourceClaim", &["v1"]),
    ("resource.k8s.io", "resourceclaimtemplates", true, "ResourceClaimTemplate", &["v1"]),
    ("resource.k8s.io", "resourceslices", false, "ResourceSlice", &["v1"]),
    ("scheduling.k8s.io", "priorityclasses", false, "PriorityClass", &["v1"]),
    ("storage.k8s.io", "csidrivers", false, "CSIDriver", &["v1"]),
    ("storage.k8s.io", "csinodes", false, "CSINode", &["v1"]),
    ("storage.k8s.io", "csistoragecapacities", true, "CSIStorageCapacity", &["v1"]),
    ("storage.k8s.io", "storageclasses", false, "StorageClass", &["v1"]),
    ("storage.k8s.io", "volumeattachments", false, "VolumeAttachment", &["v1"]),
    ("storage.k8s.io", "volumeattributesclasses", false, "VolumeAttributesClass", &["v1"]),
];

#[cfg(test)]
mod tests {
    use homeostat_api::resource::Resource;

    use super::*;

    #[track_caller]
    fn check(key: &str, api_version: &str, kind: &str, expected: &str) {
        let old = Key::parse(key).unwrap();
        let bytes = serde_json::json!({"apiVersion": api_version, "kind": kind}).to_string();
        let new = if is_custom(&old, bytes.as_bytes()) { custom_key(&old) } else { old };
        assert_eq!(new.as_str(), expected);
    }

    #[test]
    fn custom_objects_move_and_built_in_ones_stay() {
        check("/pods/a/x", "v1", "Pod", "/pods/a/x");
        check("/nodes//x", "v1", "Node", "/nodes//x");
        check("/historymarkers//newest", "", "", "/historymarkers//newest");
        check(
            "autoscaling/horizontalpodautoscalers/a/x",
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "autoscaling/horizontalpodautoscalers/a/x",
        );
        check("demo.dev/lamps/a/x", "demo.dev/v1", "Lamp", "crd:demo.dev/lamps/a/x");
        check("demo.dev/stars//x", "demo.dev/v1", "Star", "crd:demo.dev/stars//x");
    }

    #[test]
    fn a_leading_space_becomes_a_tag() {
        let key = Key::new("crd:demo.dev", "lamps", "a", "x");
        let marked = Value { hole: Some(7), ..Value::plain(r#"{ "rv":""}"#) };
        let value = tagged(&key, &marked).expect("it is marked");
        assert_eq!((&*value.bytes, value.hole, value.tag), (&br#"{"rv":""}"#[..], Some(6), NEEDS_DEFAULTS));
        assert!(tagged(&key, &Value::plain(r#"{"a":1}"#)).is_none());
    }

    #[test]
    fn objects_that_took_over_a_built_in_resource_are_recognized() {
        let bindings = "rbac.authorization.k8s.io/clusterrolebindings";
        let stays = format!("{bindings}//x");
        check(&stays, "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", &stays);
        let moved = |place: &str| format!("crd:{bindings}/{place}");
        check(&format!("{bindings}/a/x"), "rbac.authorization.k8s.io/v9", "Evil", &moved("a/x"));
        check(
            &format!("{bindings}/a/x"),
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            &moved("a/x"),
        );
        check(&stays, "rbac.authorization.k8s.io/v9", "ClusterRoleBinding", &moved("/x"));
        check(&stays, "rbac.authorization.k8s.io/v1", "Evil", &moved("/x"));
        check("/events/a/x", "v1", "Event", "/events/a/x");
        check("/events/a/x", "events.k8s.io/v9", "Oddity", "crd:events.k8s.io/events/a/x");
    }

    #[test]
    fn the_kinds_of_the_first_edition_are_still_kept_where_they_were() {
        let rows = homeostat_api::kinds::built_in_rows();
        for (group, plural, is_namespaced, kind, versions) in FIRST_EDITION {
            for version in *versions {
                let is_meant = |row: &&Resource| {
                    (&*row.group, &*row.plural, &*row.version) == (*group, *plural, *version)
                };
                let row = rows.iter().find(is_meant).unwrap_or_else(|| panic!("{plural}.{group} {version}"));
                assert_eq!((row.namespaced, &*row.kind), (*is_namespaced, *kind), "{plural}");
                assert_eq!(row.storage(), ResourceIdentity::BuiltIn(group, plural));
            }
        }
    }
}
