//! Sets the initial status of new Pods. Values that admission adds (priority, tolerations, a service account) are not
//! set here.

use homeostat_core::Clock;
use homeostat_core::quantity::parse_nanos;
use serde_json::{Value, json};

use crate::object::fill::{JsonObject, is_zero, object_or_insert};
use crate::object::read;

const COMPUTE: [&str; 2] = ["cpu", "memory"];

/// Prepares a new Pod.
pub(in crate::kinds) fn prepare_create(pod: &mut JsonObject) {
    let Some(spec) = object_or_insert(pod, "spec") else { return };
    let is_gated = !is_zero(spec.get("schedulingGates"));
    let mut status =
        json!({"phase": "Pending", "qosClass": quality_of_service(pod.get("spec").unwrap_or(&Value::Null))});
    if is_gated {
        status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "lastProbeTime": null, "lastTransitionTime": null,
            "message": "Scheduling is blocked due to non-empty scheduling gates"}]);
    }
    pod.insert("status".into(), status);
}

/// Returns the quality of service class: Guaranteed if the limits and requests for cpu and memory are set and equal
/// everywhere.
pub(in crate::kinds) fn quality_of_service(spec: &Value) -> &'static str {
    let pod_level = &spec["resources"];
    let all: Vec<&Value> = if is_zero(Some(pod_level)) {
        let containers =
            read::list_at(spec, "containers").iter().chain(read::list_at(spec, "initContainers"));
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
