//! Defaults of the core kinds that are not Pods.

use serde_json::{Map, Value, json};

use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, is_zero, made};

/// Three hours: how long a client sticks to one endpoint.
const AFFINITY_TIMEOUT_S: u32 = 10_800;

/// A Service. Addresses and ports of nodes are given out elsewhere.
pub(in crate::kinds) fn service(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill_zero(spec, "type", "ClusterIP");
    session_affinity(spec);
    for port in each(spec, "ports") {
        fill_zero(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(json!(0));
        fill_zero(port, "targetPort", number);
    }
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_balanced = kind == "LoadBalancer";
    if is_balanced || kind == "NodePort" || (kind == "ClusterIP" && !is_zero(spec.get("externalIPs"))) {
        fill_zero(spec, "externalTrafficPolicy", "Cluster");
    }
    if is_balanced || kind == "NodePort" || kind == "ClusterIP" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if is_balanced {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        balancer_mode(object);
    }
}

fn session_affinity(spec: &mut Fields) {
    fill_zero(spec, "sessionAffinity", "None");
    match spec.get("sessionAffinity").and_then(Value::as_str) {
        Some("None") => {
            spec.remove("sessionAffinityConfig");
        }
        Some("ClientIP") => {
            let client = made(spec, "sessionAffinityConfig").and_then(|config| made(config, "clientIP"));
            if let Some(client) = client {
                fill(client, "timeoutSeconds", AFFINITY_TIMEOUT_S);
            }
        }
        _ => {}
    }
}

fn balancer_mode(object: &mut Fields) {
    let Some(balancer) = inner(object, "status").and_then(|status| inner(status, "loadBalancer")) else {
        return;
    };
    for ingress in each(balancer, "ingress") {
        if !is_zero(ingress.get("ip")) {
            fill(ingress, "ipMode", "VIP");
        }
    }
}

/// A Secret.
pub(in crate::kinds) fn secret(object: &mut Fields) {
    fill_zero(object, "type", "Opaque");
}

/// A Namespace carries its name as a label, so that selectors can find it.
pub(in crate::kinds) fn namespace(object: &mut Fields) {
    if let Some(status) = inner(object, "status") {
        fill_zero(status, "phase", "Active");
    }
    let Some(metadata) = made(object, "metadata") else { return };
    let Some(name) = metadata.get("name").filter(|name| !is_zero(Some(name))).cloned() else { return };
    if let Some(labels) = made(metadata, "labels") {
        labels.insert("kubernetes.io/metadata.name".into(), name);
    }
}

/// A Node: all it has can be allocated unless it says otherwise.
pub(in crate::kinds) fn node(object: &mut Fields) {
    if let Some(spec) = inner(object, "spec") {
        pod_ranges(spec);
    }
    let Some(status) = inner(object, "status") else { return };
    if let Some(capacity) = status.get("capacity").filter(|capacity| !capacity.is_null()).cloned() {
        fill(status, "allocatable", capacity);
    }
}

/// `podCIDR` and the first of `podCIDRs` are one fact in two fields.
fn pod_ranges(spec: &mut Fields) {
    let first = spec.get("podCIDRs").and_then(|list| list.get(0)).cloned();
    match (spec.get("podCIDR").filter(|range| !is_zero(Some(range))).cloned(), first) {
        (Some(single), first) if first.as_ref() != Some(&single) => {
            spec.insert("podCIDRs".into(), json!([single]));
        }
        (None, Some(first)) => {
            spec.insert("podCIDR".into(), first);
        }
        _ => {}
    }
}

/// Endpoints.
pub(in crate::kinds) fn endpoints(object: &mut Fields) {
    for subset in each(object, "subsets") {
        for port in each(subset, "ports") {
            fill_zero(port, "protocol", "TCP");
        }
    }
}

/// A LimitRange: limits default to the maximum, requests to the limit, then to the minimum.
pub(in crate::kinds) fn limit_range(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    for limit in each(spec, "limits") {
        if limit.get("type").and_then(Value::as_str) != Some("Container") {
            continue;
        }
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            inherit(limit, from, to);
        }
    }
}

fn inherit(limit: &mut Fields, from: &str, to: &str) {
    let Some(Value::Object(amounts)) = limit.get(from).cloned() else { return };
    if amounts.is_empty() {
        return;
    }
    let Some(target) = made(limit, to) else { return };
    for (name, amount) in amounts {
        target.entry(name).or_insert(amount);
    }
}

/// A PersistentVolume.
pub(in crate::kinds) fn persistent_volume(object: &mut Fields) {
    if let Some(status) = made(object, "status") {
        fill_zero(status, "phase", "Pending");
    }
    let Some(spec) = made(object, "spec") else { return };
    fill_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    if let Some(source) = inner(spec, "hostPath") {
        fill(source, "type", "");
    }
}

/// A PersistentVolumeClaim.
pub(in crate::kinds) fn persistent_volume_claim(object: &mut Fields) {
    if let Some(status) = made(object, "status") {
        fill_zero(status, "phase", "Pending");
    }
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "resources", Map::new());
    fill(spec, "volumeMode", "Filesystem");
}
