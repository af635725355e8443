//! What is wrong with an object, per built-in kind, in the words of the real server.
//!
//! **Invariant:** runs on defaulted and prepared objects and changes nothing. Metadata every kind has is judged
//! elsewhere, and so are types and unknown fields; what is here is what Kubernetes writes as code. Rare corners
//! (Windows, profiles, most volume sources) are deliberately not judged.

mod access;
mod address;
mod affinity;
mod at;
mod batch;
mod certificates;
mod claims;
mod cluster;
mod config;
mod container;
mod control;
mod counts;
mod decision;
mod downward;
mod event;
mod failure_policy;
mod flow;
mod ingress_class;
mod job_status;
mod network;
mod pod;
mod pod_status;
mod quota;
mod resources;
mod schedule;
mod security;
mod selector;
mod service;
mod status;
mod storage;
mod volume;
mod workload;

use std::borrow::Cow;

use serde_json::Value;

pub(crate) use self::access::access;
use self::at::At;
use super::events;
use crate::field::Errors;

type Check = fn(&At<'_>, &mut Errors);
type ChangeCheck = fn(&At<'_>, &Value, &mut Errors);

const RBAC: &str = crate::auth::RBAC_GROUP;

/// The complaints about a new object, in the version its client speaks.
pub fn validate_create(group: &str, kind: &str, object: &Value) -> Errors {
    let check = match (group, kind) {
        ("", "Pod") => Some(pod::pod_create as Check),
        ("batch", "CronJob") => Some(batch::cron_job_create as Check),
        ("networking.k8s.io", "Ingress") => Some(network::ingress_create as Check),
        ("discovery.k8s.io", "EndpointSlice") => Some(network::endpoint_slice_create as Check),
        ("certificates.k8s.io", "CertificateSigningRequest") => Some(certificates::request as Check),
        ("apps", "ControllerRevision") => Some(workload::revision_create as Check),
        ("networking.k8s.io", "IPAddress") => Some(address::address_create as Check),
        ("networking.k8s.io", "ServiceCIDR") => Some(address::ranges_create as Check),
        (events::GROUP, "Event") => Some(event::newer_create as Check),
        _ => always(group, kind),
    };
    let object = judged(group, object);
    let mut errors = Errors::new();
    if let Some(check) = check {
        check(&At::root(&object), &mut errors);
    }
    errors
}

/// The complaints about an object changed through its main endpoint (an empty `subresource`) or one below.
pub fn validate_update(group: &str, kind: &str, subresource: &str, new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (new, old) = (judged(group, new), judged(group, old));
    let root = At::root(&new);
    match subresource {
        "" | "scale" => {
            if let Some(check) = on_change(group, kind) {
                check(&root, &old, &mut errors);
            }
            if let Some(check) = always(group, kind) {
                check(&root, &mut errors);
            }
        }
        "status" => status::check(group, kind, &root, &old, &mut errors),
        "ephemeralcontainers" => pod::ephemeral_update(&root, &old, &mut errors),
        "resize" => pod::resized(&root, &old, &mut errors),
        "approval" => decision::approval(&root, &old, &mut errors),
        "finalize" => cluster::namespace(&root, &mut errors),
        // Binding and evicting are judged where they are done.
        _ => {}
    }
    errors
}

/// Events are judged in their core form; complaints about them name core fields in both versions.
fn judged<'a>(group: &str, object: &'a Value) -> Cow<'a, Value> {
    if group == events::GROUP { Cow::Owned(events::to_core(object.clone())) } else { Cow::Borrowed(object) }
}

/// What holds for new and changed objects alike.
fn always(group: &str, kind: &str) -> Option<Check> {
    Some(match (group, kind) {
        ("", "ConfigMap") => config::config_map,
        ("", "Secret") => config::secret,
        ("", "Service") => service::service,
        ("", "Namespace") => cluster::namespace,
        ("", "Node") => cluster::node,
        ("", "Event") => event::core,
        ("", "Endpoints") => network::endpoints,
        ("", "LimitRange") => quota::limit_range,
        ("", "ResourceQuota") => quota::quota,
        ("", "PersistentVolume") => storage::volume,
        ("", "PersistentVolumeClaim") => storage::claim,
        ("", "PodTemplate") => workload::pod_template,
        ("", "ReplicationController") => workload::replication_controller,
        ("apps", "Deployment") => workload::deployment,
        ("apps", "ReplicaSet") => workload::replica_set,
        ("apps", "StatefulSet") => workload::stateful_set,
        ("apps", "DaemonSet") => workload::daemon_set,
        ("apps", "ControllerRevision") => workload::revision,
        ("batch", "Job") => batch::job,
        ("batch", "CronJob") => batch::cron_job,
        ("coordination.k8s.io", "Lease") => cluster::lease,
        (RBAC, "Role") => cluster::role,
        (RBAC, "ClusterRole") => cluster::cluster_role,
        (RBAC, "RoleBinding") => cluster::role_binding,
        (RBAC, "ClusterRoleBinding") => cluster::cluster_role_binding,
        ("policy", "PodDisruptionBudget") => cluster::budget,
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class,
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class,
        ("storage.k8s.io", "StorageClass") => storage::class,
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment,
        ("networking.k8s.io", "IngressClass") => ingress_class::class,
        ("networking.k8s.io", "Ingress") => network::ingress,
        ("networking.k8s.io", "NetworkPolicy") => network::policy,
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice,
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow::schema,
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flow::level,
        ("apiregistration.k8s.io", "APIService") => control::api_service,
        ("autoscaling", "HorizontalPodAutoscaler") => control::autoscaler,
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => control::webhooks,
        _ => return None,
    })
}

/// What holds between the stored and the changed object.
fn on_change(group: &str, kind: &str) -> Option<ChangeCheck> {
    Some(match (group, kind) {
        ("", "Pod") => pod::pod_update,
        ("", "ConfigMap") => config::config_map_update,
        ("", "Secret") => config::secret_update,
        ("", "Service") => service::service_update,
        ("", "Node") => cluster::node_update,
        ("", "ResourceQuota") => quota::quota_update,
        ("", "PersistentVolume") => storage::volume_update,
        ("", "PersistentVolumeClaim") => storage::claim_update,
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => workload::selector_stays,
        ("apps", "StatefulSet") => workload::stateful_set_update,
        ("apps", "ControllerRevision") => workload::revision_update,
        ("batch", "Job") => batch::job_update,
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => cluster::binding_update,
        ("scheduling.k8s.io", "PriorityClass") => cluster::priority_class_update,
        ("node.k8s.io", "RuntimeClass") => cluster::runtime_class_update,
        ("storage.k8s.io", "StorageClass") => storage::class_update,
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment_update,
        ("networking.k8s.io", "IngressClass") => ingress_class::class_update,
        ("networking.k8s.io", "IPAddress") => address::address_update,
        ("networking.k8s.io", "ServiceCIDR") => address::ranges_update,
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice_update,
        (events::GROUP, "Event") => event::newer_update,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
