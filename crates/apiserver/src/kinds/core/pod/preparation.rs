//! New and changed Pods: the first status, and what the admission steps that are always on add.
//!
//! ServiceAccount admission (mounting a token) is deliberately not here: nothing mounts it without a kubelet, and a node
//! here does so without changing the Pod. Only a Pod that asks for a token itself gets the account the token is of.

use homeostat_core::Clock;
use homeostat_core::quantity::parse_nanos;
use serde_json::{Value, json};

use crate::kinds::fill::{Fields, at, each, fill, fill_zero, is_zero, items, made, text};
use crate::kinds::prepare::Prepare;
use crate::resource::Resource;
use crate::status::Status;

/// How long a Pod stays on a node that stopped answering.
const TOLERATION_S: u32 = 300;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// A new Pod.
pub(in crate::kinds) fn prepare_create(
    resource: &Resource,
    pod: &mut Fields,
    with: &Prepare<'_>,
) -> Result<(), Status> {
    let name = pod.get("metadata").map(|metadata| text(metadata, "name").to_owned()).unwrap_or_default();
    let Some(spec) = made(pod, "spec") else { return Ok(()) };
    tolerate(spec);
    if with.has_node && asks_for_token(spec) {
        for field in ["serviceAccountName", "serviceAccount"] {
            fill_zero(spec, field, "default");
        }
    }
    let refused = |why: String| Status::forbidden(&resource.about(&name), &why);
    prioritize(spec, with).map_err(refused)?;
    let is_gated = !is_zero(spec.get("schedulingGates"));
    let mut status =
        json!({"phase": "Pending", "qosClass": quality_of_service(pod.get("spec").unwrap_or(&Value::Null))});
    if is_gated {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "lastProbeTime": null, "lastTransitionTime": null,
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
    pod.insert("status".into(), status);
    Ok(())
}

/// Does the Pod name no account, but want its token in a volume?
fn asks_for_token(spec: &Fields) -> bool {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let sources = volumes.flat_map(|volume| volume["projected"]["sources"].as_array().into_iter().flatten());
    is_zero(spec.get("serviceAccountName"))
        && sources.into_iter().any(|one| one["serviceAccountToken"].is_object())
}

/// A changed Pod: what admission decided at creation stays.
pub(in crate::kinds) fn prepare_update(pod: &mut Fields, old: &Value) {
    let Some(spec) = made(pod, "spec") else { return };
    tolerate(spec);
    for name in ["priority", "preemptionPolicy"] {
        let before = at(old, &["spec", name]);
        if !before.is_null() {
            fill(spec, name, before.clone());
        }
    }
}

/// Adds the tolerations that let a Pod outlive a short absence of its node.
fn tolerate(spec: &mut Fields) {
    for taint in TAINTS {
        let covers = |one: &mut Fields| {
            let of = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
            matches!(of("effect"), "" | "NoExecute") && (of("key").is_empty() || of("key") == taint)
        };
        if each(spec, "tolerations").any(covers) {
            continue;
        }
        let toleration = json!({"key": taint, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": TOLERATION_S});
        match spec.get_mut("tolerations") {
            Some(Value::Array(tolerations)) => tolerations.push(toleration),
            _ => {
                spec.insert("tolerations".into(), json!([toleration]));
            }
        }
    }
}

fn prioritize(spec: &mut Fields, with: &Prepare<'_>) -> Result<(), String> {
    let name = spec.get("priorityClassName").and_then(Value::as_str).unwrap_or_default().to_owned();
    let class = match (name.as_str(), (with.priority_classes)(&name)) {
        (_, Some(class)) => class,
        ("system-cluster-critical", None) => json!({"value": 2_000_000_000}),
        ("system-node-critical", None) => json!({"value": 2_000_001_000}),
        ("", None) => json!({"value": 0}),
        (name, None) => return Err(format!("no PriorityClass with name {name} was found")),
    };
    if name.is_empty() && !is_zero(class.get("metadata")) {
        spec.insert("priorityClassName".into(), class["metadata"]["name"].clone());
    }
    agree(spec, "priority", &class["value"], "the integer value of priority")?;
    let policy = class.get("preemptionPolicy").cloned().unwrap_or(json!("PreemptLowerPriority"));
    agree(spec, "preemptionPolicy", &policy, "the string value of PreemptionPolicy")
}

fn agree(spec: &mut Fields, field: &str, computed: &Value, what: &str) -> Result<(), String> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match spec.get(field).filter(|value| !value.is_null()) {
        Some(said) if said != computed => Err(format!(
            "{what} ({}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            shown(said),
            shown(computed)
        )),
        _ => {
            spec.insert(field.into(), computed.clone());
            Ok(())
        }
    }
}

/// The quality of service class: Guaranteed when limits and requests of cpu and memory are set and equal everywhere.
pub(in crate::kinds) fn quality_of_service(spec: &Value) -> &'static str {
    let pod_level = at(spec, &["resources"]);
    let all: Vec<&Value> = if is_zero(Some(pod_level)) {
        let containers = items(spec, "containers").iter().chain(items(spec, "initContainers"));
        containers.map(|one| at(one, &["resources"])).collect()
    } else {
        vec![pod_level]
    };
    let amount = |resources: &Value, list: &str, name: &str| {
        let value = at(resources, &[list, name]);
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        parse_nanos(&text).filter(|nanos| *nanos > 0)
    };
    let is_set = |resources: &&Value| {
        COMPUTE
            .iter()
            .any(|name| ["requests", "limits"].iter().any(|list| amount(resources, list, name).is_some()))
    };
    let is_exact = |resources: &&Value| {
        COMPUTE.iter().all(|name| {
            let limit = amount(resources, "limits", name);
            limit.is_some()
                && amount(resources, "requests", name).is_none_or(|request| Some(request) == limit)
        })
    };
    if !all.iter().any(is_set) {
        "BestEffort"
    } else if all.iter().all(is_exact) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// The quality of service stays, where the body does not say it.
pub(in crate::kinds) fn prepare_status(fields: &mut Fields, stored: &Value, _: &Clock) {
    let Some(status) = made(fields, "status") else { return };
    let class = at(stored, &["status", "qosClass"]);
    if is_zero(status.get("qosClass")) && !class.is_null() {
        status.insert("qosClass".into(), class.clone());
    }
}
