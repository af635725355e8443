//! Prepares new and changed Pods: the initial status, and the additions of the admission steps that are always on.
//!
//! ServiceAccount admission (mounting a token) is deliberately absent: nothing mounts a token without a kubelet, and
//! a node here does so without changing the Pod. Only a Pod that asks for a token itself gets the account of the
//! token.

use homeostat_core::Clock;
use homeostat_core::quantity::parse_nanos;
use serde_json::{Value, json};

use crate::object::fill::{JsonObject, is_zero, object_or_insert, objects_mut, set_if_absent, set_if_zero};
use crate::object::read;
use crate::resource::Resource;
use crate::resource::prepare::PrepareContext;
use crate::status::Status;

/// How long a Pod stays on a node that stopped responding.
const TOLERATION_S: u32 = 300;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Prepares a new Pod.
pub(in crate::kinds) fn prepare_create(
    resource: &Resource,
    pod: &mut JsonObject,
    with: &PrepareContext<'_>,
) -> Result<(), Status> {
    let name =
        pod.get("metadata").map(|metadata| read::text(metadata, "name").to_owned()).unwrap_or_default();
    let Some(spec) = object_or_insert(pod, "spec") else { return Ok(()) };
    let refused = |why: String| Status::forbidden(&resource.about(&name), &why);
    set_priority(spec, with).map_err(refused)?;
    add_default_tolerations(spec);
    apply_runtime_class(spec, with).map_err(refused)?;
    if with.has_node && asks_for_token(spec) {
        for field in ["serviceAccountName", "serviceAccount"] {
            set_if_zero(spec, field, "default");
        }
    }
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

/// Returns whether the Pod names no account, but wants a token in a volume.
fn asks_for_token(spec: &JsonObject) -> bool {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let sources = volumes.flat_map(|volume| volume["projected"]["sources"].as_array().into_iter().flatten());
    is_zero(spec.get("serviceAccountName"))
        && sources.into_iter().any(|one| one["serviceAccountToken"].is_object())
}

/// Prepares a changed Pod: what admission decided at creation does not change.
pub(in crate::kinds) fn prepare_update(pod: &mut JsonObject, old: &Value) {
    let Some(spec) = object_or_insert(pod, "spec") else { return };
    add_default_tolerations(spec);
    for name in ["priority", "preemptionPolicy"] {
        let before = &old["spec"][name];
        if !before.is_null() {
            set_if_absent(spec, name, before.clone());
        }
    }
}

/// Adds the tolerations with which a Pod survives a short absence of its node.
fn add_default_tolerations(spec: &mut JsonObject) {
    for taint in TAINTS {
        let covers = |one: &mut JsonObject| {
            let of = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default();
            matches!(of("effect"), "" | "NoExecute") && (of("key").is_empty() || of("key") == taint)
        };
        if objects_mut(spec, "tolerations").any(covers) {
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

/// Sets the overhead and the scheduling constraints of the Pod's RuntimeClass. Refuses a Pod that contradicts them,
/// and a Pod with an overhead but without a class that has one.
fn apply_runtime_class(spec: &mut JsonObject, with: &PrepareContext<'_>) -> Result<(), String> {
    let class = match spec.get("runtimeClassName").and_then(Value::as_str) {
        None => Value::Null,
        Some(name) => (with.runtime_classes)(name)
            .ok_or_else(|| format!("pod rejected: RuntimeClass {name:?} not found"))?,
    };
    let (overhead, claimed) = (&class["overhead"], spec.get("overhead").filter(|claimed| !claimed.is_null()));
    if overhead.is_null() && claimed.is_some() {
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(why.into());
    }
    if !overhead.is_null() {
        let fixed = &overhead["podFixed"];
        if claimed.is_some_and(|claimed| !is_zero(Some(claimed)) && !is_same_amount(claimed, fixed)) {
            return Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into());
        }
        spec.insert("overhead".into(), fixed.clone());
    }
    apply_scheduling(spec, &class["scheduling"])
}

/// Returns whether both name the same resources and the same amount of each.
fn is_same_amount(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    let amount = |value: &Value| value.as_str().and_then(parse_nanos);
    let is_in_other = |(name, value): (&String, &Value)| {
        other.get(name).is_some_and(|other| amount(other) == amount(value))
    };
    one.len() == other.len() && one.iter().all(is_in_other)
}

/// Adds the node selector and the tolerations of the class.
fn apply_scheduling(spec: &mut JsonObject, scheduling: &Value) -> Result<(), String> {
    for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let Some(selector) = object_or_insert(spec, "nodeSelector") else { return Ok(()) };
        if let Some(given) = selector.get(key).filter(|given| *given != wanted) {
            let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                shown(wanted),
                shown(given)
            ));
        }
        selector.insert(key.clone(), wanted.clone());
    }
    let tolerations = read::list(scheduling, "tolerations");
    if !tolerations.is_empty() {
        let given = spec.get("tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
        // Those of the Pod come first; duplicates are dropped.
        let added = tolerations.iter().filter(|one| !given.contains(one)).cloned().collect::<Vec<_>>();
        spec.insert("tolerations".into(), given.into_iter().chain(added).collect());
    }
    Ok(())
}

fn set_priority(spec: &mut JsonObject, with: &PrepareContext<'_>) -> Result<(), String> {
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

fn agree(spec: &mut JsonObject, field: &str, computed: &Value, what: &str) -> Result<(), String> {
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

/// Returns the quality of service class: Guaranteed if limits and requests of cpu and memory are set and equal
/// everywhere.
pub(in crate::kinds) fn quality_of_service(spec: &Value) -> &'static str {
    let pod_level = &spec["resources"];
    let all: Vec<&Value> = if is_zero(Some(pod_level)) {
        let containers = read::list(spec, "containers").iter().chain(read::list(spec, "initContainers"));
        containers.map(|one| &one["resources"]).collect()
    } else {
        vec![pod_level]
    };
    let amount = |resources: &Value, list: &str, name: &str| {
        let value = &resources[list][name];
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

/// Keeps the quality of service class if the body does not set it.
pub(in crate::kinds) fn prepare_status(fields: &mut JsonObject, stored: &Value, _: &Clock) {
    let Some(status) = object_or_insert(fields, "status") else { return };
    let class = &stored["status"]["qosClass"];
    if is_zero(status.get("qosClass")) && !class.is_null() {
        status.insert("qosClass".into(), class.clone());
    }
}
