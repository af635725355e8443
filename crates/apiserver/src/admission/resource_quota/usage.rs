//! Computes how objects count towards quotas: Pods, Services and claims by the amounts they request, all objects by
//! number.

use std::collections::BTreeMap;

use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::core::service::SERVICE;
use homeostat_api::resource::Resource;
use homeostat_api::storage_identity::ResourceIdentity;
use homeostat_core::Clock;
use homeostat_core::quantity::Quantity;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::pod_resources::{Amounts, add, parse_amounts, total};
use super::super::request::is_kind;
use super::super::{AdmissionRequest, Operation};

/// Separates the class from the resource in the quota names that count claims of one storage class.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// Resources that containers must specify if a quota limits them.
const MUST_SPECIFY: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
/// Pod resources that quotas can name. There are more, with a prefix.
const OF_PODS: [&str; 10] = [
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// How a kind is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargedKind {
    Pod,
    Service,
    Claim,
    /// It is charged by number only.
    Other,
    /// It is not charged at all: events, and objects that are not stored.
    Free,
}

impl ChargedKind {
    pub(super) fn of_resource(resource: &Resource) -> Self {
        match resource.storage() {
            _ if is_kind(resource, &POD) => Self::Pod,
            _ if is_kind(resource, &SERVICE) => Self::Service,
            _ if is_kind(resource, &PERSISTENT_VOLUME_CLAIM) => Self::Claim,
            ResourceIdentity::BuiltIn("", "bindings" | "events")
            | ResourceIdentity::BuiltIn(
                "events.k8s.io" | "authorization.k8s.io" | "authentication.k8s.io",
                _,
            ) => Self::Free,
            _ => Self::Other,
        }
    }

    /// Returns whether a write can change the usage.
    pub(super) fn is_charged_for(self, request: &AdmissionRequest<'_>, object: &Value) -> bool {
        match (self, request.operation, request.subresource) {
            (Self::Free, ..) | (_, Operation::Delete | Operation::Connect, _) => false,
            (_, Operation::Create, "")
            | (Self::Pod, Operation::Update, "resize")
            | (Self::Service | Self::Claim, Operation::Update, "") => true,
            (Self::Pod, Operation::Update, "") => {
                request.old.is_some_and(|old| has_deadline(old) != has_deadline(object))
            }
            _ => false,
        }
    }

    /// Returns whether a resource name in a quota applies to this kind.
    pub(super) fn has_resource(self, resource: &Resource, name: &str) -> bool {
        if count_names(resource).iter().any(|count| count == name) {
            return self != Self::Free;
        }
        match self {
            Self::Pod => {
                OF_PODS.contains(&name)
                    || name.starts_with("hugepages-")
                    || name.starts_with("requests.hugepages-")
                    || name.strip_prefix("requests.").is_some_and(is_extended)
            }
            Self::Service => matches!(name, "services.nodeports" | "services.loadbalancers"),
            Self::Claim => {
                name == "requests.storage"
                    || ["persistentvolumeclaims", "requests.storage"]
                        .iter()
                        .any(|one| name.ends_with(&format!("{BY_CLASS}{one}")))
            }
            Self::Other | Self::Free => false,
        }
    }
}

/// Returns whether this is an extended resource: one that neither Kubernetes nor its nodes define.
fn is_extended(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

/// Returns whether a Pod is terminated after a deadline.
pub(super) fn has_deadline(pod: &Value) -> bool {
    pod["spec"]["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0)
}

/// Returns the names under which objects of a resource are counted.
pub(super) fn count_names(resource: &Resource) -> Vec<String> {
    const PLAIN: [&str; 6] = [
        "configmaps",
        "resourcequotas",
        "replicationcontrollers",
        "secrets",
        "services",
        "persistentvolumeclaims",
    ];
    let qualified = resource.about("").qualified();
    let plain = PLAIN.contains(&&*qualified).then(|| qualified.clone());
    plain.into_iter().chain([format!("count/{qualified}")]).collect()
}

/// Returns the usage of an object.
pub(super) fn usage_of(kind: ChargedKind, resource: &Resource, object: &Value, clock: &Clock) -> Amounts {
    let mut usage = Amounts::new();
    for name in count_names(resource) {
        usage.insert(name, Quantity::from(1));
    }
    match kind {
        ChargedKind::Pod if is_active(object, clock.now()) => usage.extend(usage_of_pod(object)),
        ChargedKind::Service => usage.extend(usage_of_service(object)),
        ChargedKind::Claim => usage.extend(usage_of_claim(object)),
        _ => {}
    }
    usage
}

/// Returns whether a Pod still counts. A Pod that has terminated, or should have terminated long ago, does not.
fn is_active(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return false;
    }
    let metadata = &pod["metadata"];
    let deleted = metadata["deletionTimestamp"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match (deleted, metadata["deletionGracePeriodSeconds"].as_i64()) {
        (Some(at), Some(grace_s)) => {
            at.checked_add(SignedDuration::from_secs(grace_s)).is_ok_and(|end| now <= end)
        }
        _ => true,
    }
}

fn usage_of_pod(pod: &Value) -> Amounts {
    let (mut requests, mut limits) = (total(pod, "requests"), total(pod, "limits"));
    let overhead = parse_amounts(&pod["spec"]["overhead"]);
    add(&mut requests, &overhead);
    let limited = overhead.into_iter().filter(|(name, _)| limits.contains_key(name)).collect();
    add(&mut limits, &limited);
    compute_usage(&requests, &limits)
}

/// Returns the usage under the names that quotas use for requests and limits.
fn compute_usage(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), Quantity::from(1))]);
    for (name, amount) in requests {
        let is_plain = matches!(&**name, "cpu" | "memory" | "ephemeral-storage");
        let is_huge = name.starts_with("hugepages-");
        if is_plain || is_huge {
            usage.insert(name.clone(), *amount);
        }
        if is_plain || is_huge || is_extended(name) {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

fn usage_of_service(service: &Value) -> Amounts {
    let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let given = ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or_default() != 0).count();
    let (node_ports, balancers) = match service["spec"]["type"].as_str() {
        Some("NodePort") => (ports.len(), 0),
        Some("LoadBalancer") if service["spec"]["allocateLoadBalancerNodePorts"] == false => (given, 1),
        Some("LoadBalancer") => (ports.len(), 1),
        _ => (0, 0),
    };
    Amounts::from([
        ("services.nodeports".to_owned(), Quantity::from(node_ports as u64)),
        ("services.loadbalancers".to_owned(), Quantity::from(balancers)),
    ])
}

fn usage_of_claim(claim: &Value) -> Amounts {
    let old_class = &claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"];
    let class = old_class.as_str().or_else(|| claim["spec"]["storageClassName"].as_str()).unwrap_or_default();
    let storage = |list: &Value| parse_amounts(list).get("storage").copied();
    let requested = storage(&claim["spec"]["resources"]["requests"]);
    let allocated = storage(&claim["status"]["allocatedResources"]);
    let stored = requested.into_iter().chain(allocated).max_by_key(|amount| amount.nanos());
    let mut usage = Amounts::new();
    let mut count = |name: &str, amount: Quantity| {
        if name != "persistentvolumeclaims" {
            usage.insert(name.to_owned(), amount);
        }
        if !class.is_empty() {
            usage.insert(format!("{class}{BY_CLASS}{name}"), amount);
        }
    };
    count("persistentvolumeclaims", Quantity::from(1));
    if let Some(stored) = stored.filter(|_| requested.is_some()) {
        count("requests.storage", stored);
    }
    usage
}

/// Returns the resources that the containers of a Pod must specify because a quota limits them, but do not.
pub(super) fn missing_resources(kind: ChargedKind, restricted: &[&str], pod: &Value) -> Option<String> {
    if kind != ChargedKind::Pod || pod["spec"]["resources"].as_object().is_some_and(|all| !all.is_empty()) {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for container in ["containers", "initContainers"]
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
    {
        let of = |which: &str| parse_amounts(&container["resources"][which]);
        let specified = compute_usage(&of("requests"), &of("limits"));
        for name in MUST_SPECIFY.iter().filter(|name| restricted.contains(name)) {
            if !specified.contains_key(*name) {
                missing.entry(name).or_default().push(container["name"].as_str().unwrap_or_default());
            }
        }
    }
    let shown = missing.iter_mut().map(|(name, containers)| {
        containers.sort_unstable();
        format!("{name} for: {}", containers.join(","))
    });
    let shown = shown.collect::<Vec<_>>();
    (!shown.is_empty()).then(|| shown.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_services_and_claims_use_what_they_ask_for() {
        let check = |usage: &Amounts, expected: &[(&str, &str)]| {
            let shown = usage.iter().map(|(name, amount)| (name.clone(), amount.to_string()));
            let expected = expected.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()));
            assert_eq!(shown.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        };
        let resources = json!({"requests": {"cpu": "1", "gpu.dev/a": "2"}, "limits": {"cpu": "2"}});
        let pod = json!({"spec": {"containers": [{"resources": resources}], "overhead": {"cpu": "500m"}}});
        let expected = [
            ("cpu", "1500m"),
            ("limits.cpu", "2500m"),
            ("pods", "1"),
            ("requests.cpu", "1500m"),
            ("requests.gpu.dev/a", "2"),
        ];
        check(&usage_of_pod(&pod), &expected);
        let service = json!({"spec": {"type": "NodePort", "ports": [{}, {}]}});
        check(&usage_of_service(&service), &[("services.loadbalancers", "0"), ("services.nodeports", "2")]);
        let claim = json!({"spec": {"storageClassName": "f", "resources": {"requests": {"storage": "1Gi"}}}});
        check(
            &usage_of_claim(&claim),
            &[
                ("f.storageclass.storage.k8s.io/persistentvolumeclaims", "1"),
                ("f.storageclass.storage.k8s.io/requests.storage", "1Gi"),
                ("requests.storage", "1Gi"),
            ],
        );
    }

    #[test]
    fn what_a_quota_limits_must_be_specified() {
        let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
        let missing = missing_resources(ChargedKind::Pod, &["limits.cpu", "pods"], &pod);
        assert_eq!(missing.as_deref(), Some("limits.cpu for: a,b"));
        assert_eq!(missing_resources(ChargedKind::Pod, &["pods"], &pod), None);
    }
}
