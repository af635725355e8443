//! The cells of the built-in kinds, one function per kind, one file per group. They print what
//! `pkg/printers/internalversion` of Kubernetes prints; wide columns are always included, the client hides them.
//!
//! **Invariant:** a function gives exactly as many cells as its kind has columns; a test checks them all.

mod admission;
mod apps;
mod autoscaling;
mod batch;
mod certificates;
mod core;
mod event;
mod flowcontrol;
mod networking;
mod node;
mod pod;
mod rbac;
mod service;
mod storage;

use jiff::Timestamp;
use serde_json::Value;

use super::{age, read};

/// Makes the cells of one object.
pub(super) type Cells = fn(&Value, Timestamp) -> Vec<Value>;
/// Makes the conditions of one object's row, if it has any.
pub(super) type Conditions = fn(&Value) -> Option<Value>;

/// The cells of a built-in kind.
pub(super) fn of(kind: &str) -> Option<Cells> {
    Some(match kind {
        "APIService" => admission::api_service,
        "CertificateSigningRequest" => certificates::signing_request,
        "ClusterRoleBinding" | "RoleBinding" => rbac::binding,
        "ComponentStatus" => core::component_status,
        "ConfigMap" => core::config_map,
        "ControllerRevision" => apps::controller_revision,
        "CronJob" => batch::cron_job,
        "CSIDriver" => storage::csi_driver,
        "CSINode" => storage::csi_node,
        "DaemonSet" => apps::daemon_set,
        "Deployment" => apps::deployment,
        "DeviceClass" | "ResourceClaimTemplate" | "ServiceAccount" => name_and_age,
        "Endpoints" => networking::endpoints,
        "EndpointSlice" => networking::endpoint_slice,
        "Event" => event::event,
        "FlowSchema" => flowcontrol::flow_schema,
        "HorizontalPodAutoscaler" => autoscaling::horizontal_pod_autoscaler,
        "Ingress" => networking::ingress,
        "IngressClass" => networking::ingress_class,
        "IPAddress" => networking::ip_address,
        "Job" => batch::job,
        "Lease" => core::lease,
        "MutatingAdmissionPolicy" => admission::mutating_policy,
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => admission::policy_binding,
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => admission::webhooks,
        "Namespace" => core::namespace,
        "NetworkPolicy" => networking::network_policy,
        "Node" => node::node,
        "PersistentVolume" => storage::persistent_volume,
        "PersistentVolumeClaim" => storage::persistent_volume_claim,
        "Pod" => pod::pod,
        "PodDisruptionBudget" => core::pod_disruption_budget,
        "PodTemplate" => core::pod_template,
        "PriorityClass" => core::priority_class,
        "PriorityLevelConfiguration" => flowcontrol::priority_level,
        "ReplicaSet" => apps::replica_set,
        "ReplicationController" => core::replication_controller,
        "ResourceClaim" => core::resource_claim,
        "ResourceQuota" => core::resource_quota,
        "ResourceSlice" => core::resource_slice,
        "RuntimeClass" => node::runtime_class,
        "Scale" => autoscaling::scale,
        "Secret" => core::secret,
        "Service" => service::service,
        "ServiceCIDR" => networking::service_cidr,
        "StatefulSet" => apps::stateful_set,
        "StorageClass" => storage::storage_class,
        "ValidatingAdmissionPolicy" => admission::validating_policy,
        "VolumeAttachment" => storage::volume_attachment,
        "VolumeAttributesClass" => storage::volume_attributes_class,
        _ => return None,
    })
}

/// The row conditions of a built-in kind: only Pods have any.
pub(super) fn conditions_of(kind: &str) -> Option<Conditions> {
    (kind == "Pod").then_some(pod::conditions as Conditions)
}

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![read::name(object).into(), age::of(object, now).into()]
}

/// Names and images of the containers below a pod spec.
fn containers(object: &Value, path: &str) -> [Value; 2] {
    let containers = read::list(object, path);
    ["name", "image"].map(|field| {
        read::joined(containers.iter().map(|container| read::text(container, field)), ",").into()
    })
}

/// The first texts of a list, and how many more there are.
fn shortened(texts: &[String], max: usize, separator: &str) -> String {
    let shown = texts[..texts.len().min(max)].join(separator);
    if texts.len() > max { format!("{shown} + {} more...", texts.len() - max) } else { shown }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::columns;
    use super::*;
    use crate::resource::Resource;

    #[test]
    fn every_kind_with_columns_has_as_many_cells_even_when_empty() {
        let scale = std::iter::once("Scale".to_owned());
        let listed =
            Resource::built_in().into_iter().filter(|row| row.allows("list")).map(|row| row.kind.to_string());
        for kind in listed.chain(scale) {
            let columns = columns::built_in(&kind);
            let cells = of(&kind);
            assert_eq!(columns.is_some(), cells.is_some(), "{kind}");
            let (Some(columns), Some(cells)) = (columns, cells) else { continue };
            // IPAddress prints its age without a column for it, there as here.
            let extra = usize::from(kind == "IPAddress");
            let printed = cells(&json!({"metadata": {}}), Timestamp::UNIX_EPOCH);
            assert_eq!(printed.len(), columns.len() + extra, "{kind}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let texts = ["a", "b", "c", "d"].map(str::to_owned);
        assert_eq!(shortened(&texts, 3, ","), "a,b,c + 1 more...");
        assert_eq!(shortened(&texts[..3], 3, ","), "a,b,c");
    }
}
