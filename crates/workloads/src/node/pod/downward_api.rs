//! Resolves the fields that a Pod can read about itself: `fieldRef` and `resourceFieldRef`.

use homeostat_core::quantity::Quantity;
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};

use super::status::HOST;

/// Returns the value of a field of the Pod; `None` for an unsupported path.
pub(crate) fn pod_field(pod: &Pod, path: &str) -> Option<String> {
    let (meta, spec) = (&pod.metadata, pod.spec.as_ref());
    if let Some((map, key)) = subscript(path) {
        let map = if map == "metadata.labels" { &meta.labels } else { &meta.annotations };
        return Some(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    Some(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(meta.labels.as_ref()),
        "metadata.annotations" => lines(meta.annotations.as_ref()),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => {
            spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_else(|| "default".to_owned())
        }
        "status.hostIP" | "status.hostIPs" => HOST.to_owned(),
        "status.podIP" | "status.podIPs" => pod.status.as_ref().and_then(|status| status.pod_ip.clone())?,
        _ => return None,
    })
}

/// Splits `metadata.labels['key']`.
fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, rest) = path.split_once("['")?;
    let key = rest.strip_suffix("']")?;
    matches!(map, "metadata.labels" | "metadata.annotations").then_some((map, key))
}

fn lines(map: Option<&std::collections::BTreeMap<String, String>>) -> String {
    let lines = map.into_iter().flatten().map(|(key, value)| format!("{key}={value:?}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a limit or request in units of its divisor, rounded up. A resource without a limit is as large as the
/// machine's.
pub(crate) fn resource_field(container: &Container, selector: &ResourceFieldSelector) -> Option<String> {
    let (kind, name) = selector.resource.split_once('.')?;
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let given = if kind == "limits" { limits } else { requests };
    let given = given.and_then(|map| map.get(name)).and_then(|quantity| quantity.0.parse().ok());
    let amount =
        given.unwrap_or_else(|| Quantity::from(if kind == "limits" { machine_capacity(name) } else { 0 }));
    let divisor = selector.divisor.as_ref().and_then(|divisor| divisor.0.parse().ok());
    let in_divisors = divisor.and_then(|divisor| amount.in_units_of(divisor));
    Some(in_divisors.unwrap_or_else(|| amount.wholes()).to_string())
}

fn machine_capacity(name: &str) -> u64 {
    match name {
        "cpu" => std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
        "memory" => crate::node::node_registration::memory_bytes(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_knows_itself() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"a": "1", "b/c": "2"}},
            "spec": {"nodeName": "here", "containers": []}, "status": {"podIP": "127.1.2.3"}
        }))
        .unwrap();
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(pod_field(&pod, path).as_deref(), expected, "{path}");
        };
        check("metadata.name", Some("p"));
        check("metadata.namespace", Some("n"));
        check("metadata.labels['b/c']", Some("2"));
        check("metadata.labels['x']", Some(""));
        check("metadata.labels", Some("a=\"1\"\nb/c=\"2\""));
        check("spec.nodeName", Some("here"));
        check("status.podIP", Some("127.1.2.3"));
        check("status.hostIP", Some("127.0.0.1"));
        check("spec.containers", None);
    }

    #[test]
    fn resources_are_counted_in_divisors() {
        let container: Container = serde_json::from_value(serde_json::json!({"name": "main",
            "resources": {"limits": {"memory": "64Mi", "cpu": "250m"}, "requests": {"memory": "1.5Ki"}}}))
        .unwrap();
        let check = |resource: &str, divisor: Option<&str>, expected: &str| {
            let selector = serde_json::json!({"resource": resource, "divisor": divisor});
            let value = resource_field(&container, &serde_json::from_value(selector).unwrap());
            assert_eq!(value.as_deref(), Some(expected), "{resource} {divisor:?}");
        };
        check("limits.memory", Some("1Mi"), "64");
        check("limits.memory", None, "67108864");
        check("limits.memory", Some("0"), "67108864");
        check("limits.cpu", None, "1");
        check("limits.cpu", Some("1m"), "250");
        check("requests.memory", Some("1Ki"), "2");
        check("requests.cpu", None, "0");
        check("limits.ephemeral-storage", None, "0");
    }
}
