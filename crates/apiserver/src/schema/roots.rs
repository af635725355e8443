//! The built-in types that stand alone in a request or an answer: one row each, and the only place that names them
//! as Rust types. Everything below them is found by following their schemas.
//!
//! Bodies of connect verbs (`PodExecOptions` …) are query parameters, not documents, and have no row.

use k8s_openapi::Resource;
use k8s_openapi::api::admissionregistration::v1 as admissionregistration_v1;
use k8s_openapi::api::apps::v1 as apps_v1;
use k8s_openapi::api::authentication::v1 as authentication_v1;
use k8s_openapi::api::authorization::v1 as authorization_v1;
use k8s_openapi::api::autoscaling::v1 as autoscaling_v1;
use k8s_openapi::api::autoscaling::v2 as autoscaling_v2;
use k8s_openapi::api::batch::v1 as batch_v1;
use k8s_openapi::api::certificates::v1 as certificates_v1;
use k8s_openapi::api::coordination::v1 as coordination_v1;
use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::discovery::v1 as discovery_v1;
use k8s_openapi::api::events::v1 as events_v1;
use k8s_openapi::api::flowcontrol::v1 as flowcontrol_v1;
use k8s_openapi::api::networking::v1 as networking_v1;
use k8s_openapi::api::node::v1 as node_v1;
use k8s_openapi::api::policy::v1 as policy_v1;
use k8s_openapi::api::rbac::v1 as rbac_v1;
use k8s_openapi::api::resource::v1 as resource_v1;
use k8s_openapi::api::scheduling::v1 as scheduling_v1;
use k8s_openapi::api::storage::v1 as storage_v1;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration_v1;
use k8s_openapi::schemars::{JsonSchema, SchemaGenerator};

/// One type that stands alone.
pub(super) struct Root {
    /// API group, empty for core.
    pub(super) group: &'static str,
    /// API version.
    pub(super) version: &'static str,
    /// Kind.
    pub(super) kind: &'static str,
    /// Adds the type and all it refers to to the generator's definitions.
    pub(super) generate: fn(&mut SchemaGenerator),
    /// Its full name: `io.k8s.api.apps.v1.Deployment`.
    pub(super) name: fn() -> String,
}

const fn root<T: Resource + JsonSchema>() -> Root {
    named::<T>(T::GROUP, T::VERSION, T::KIND)
}

const fn named<T: JsonSchema>(group: &'static str, version: &'static str, kind: &'static str) -> Root {
    Root {
        group,
        version,
        kind,
        generate: |generator| {
            generator.subschema_for::<T>();
        },
        name: || T::schema_name().into_owned(),
    }
}

macro_rules! rows {
    ($($module:ident { $($kind:ident),+ $(,)? })+) => {
        &[$($(root::<$module::$kind>(),)+)+
            named::<meta_v1::DeleteOptions>("", "v1", "DeleteOptions"),
            named::<meta_v1::Status>("", "v1", "Status"),
            named::<meta_v1::ObjectMeta>("", "v1", "ObjectMeta"),
        ]
    };
}

/// All rows.
pub(super) const ROOTS: &[Root] = rows! {
    core_v1 {
        Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
        PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service,
        ServiceAccount,
    }
    admissionregistration_v1 {
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    }
    apiextensions_v1 { CustomResourceDefinition }
    apiregistration_v1 { APIService }
    apps_v1 { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
    authentication_v1 { SelfSubjectReview, TokenRequest, TokenReview }
    authorization_v1 {
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
    }
    autoscaling_v1 { HorizontalPodAutoscaler, Scale }
    autoscaling_v2 { HorizontalPodAutoscaler }
    batch_v1 { CronJob, Job }
    certificates_v1 { CertificateSigningRequest }
    coordination_v1 { Lease }
    discovery_v1 { EndpointSlice }
    events_v1 { Event }
    flowcontrol_v1 { FlowSchema, PriorityLevelConfiguration }
    networking_v1 { IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR }
    node_v1 { RuntimeClass }
    policy_v1 { Eviction, PodDisruptionBudget }
    rbac_v1 { ClusterRole, ClusterRoleBinding, Role, RoleBinding }
    resource_v1 { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
    scheduling_v1 { PriorityClass }
    storage_v1 {
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    }
};
