//! RuntimeClass: requires the class of a Pod to exist, and copies its overhead and scheduling constraints to the Pod.

use homeostat_api::kinds::core::pod::POD;
use homeostat_api::kinds::node::runtime_class::RUNTIME_CLASS;
use homeostat_api::object::fill::is_zero;
use homeostat_api::status::Status;
use homeostat_core::quantity::parse_nanos;
use serde_json::Value;

use super::plugin::{Mutate, Plugin, Validate};
use super::request::is_kind;
use super::{AdmissionRequest, Operation};

pub(super) static PLUGIN: Plugin = Plugin {
    mutate: Mutate::Now(mutate),
    validate: Validate::Now(validate),
    ..Plugin::new("RuntimeClass", |resource| is_kind(resource, &POD))
};

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const NO_OVERHEAD: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

fn mutate(request: &AdmissionRequest<'_>, pod: &mut Value) -> Result<(), Status> {
    if !request.is_of(&POD) || request.operation != Operation::Create {
        return Ok(());
    }
    let class = load_class(request, pod)?;
    set_overhead(pod, &class["overhead"])
        .and_then(|()| set_scheduling(pod, &class["scheduling"]))
        .map_err(|why| request.forbidden(pod, &why))
}

fn validate(request: &AdmissionRequest<'_>, pod: &Value) -> Result<(), Status> {
    if !request.is_of(&POD) || request.operation != Operation::Create {
        return Ok(());
    }
    let class = load_class(request, pod)?;
    let (expected, given) = (&class["overhead"], &pod["spec"]["overhead"]);
    let why = match (expected.is_null(), given.is_null()) {
        (true, false) => NO_OVERHEAD,
        (false, _) if !is_same_amount(&expected["podFixed"], given) => OTHER_OVERHEAD,
        _ => return Ok(()),
    };
    Err(request.forbidden(pod, why))
}

/// Returns the class of a Pod; null if it has none.
fn load_class(request: &AdmissionRequest<'_>, pod: &Value) -> Result<Value, Status> {
    let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(Value::Null) };
    let missing = || request.forbidden(pod, &format!("pod rejected: RuntimeClass {name:?} not found"));
    request.load(&RUNTIME_CLASS, "", name).ok_or_else(missing)
}

fn set_overhead(pod: &mut Value, overhead: &Value) -> Result<(), String> {
    if overhead.is_null() {
        return Ok(());
    }
    let (fixed, claimed) = (&overhead["podFixed"], &pod["spec"]["overhead"]);
    if !is_zero(Some(claimed)) && !is_same_amount(claimed, fixed) {
        return Err(OTHER_OVERHEAD.to_owned());
    }
    pod["spec"]["overhead"] = fixed.clone();
    Ok(())
}

/// Returns whether both contain the same resources in the same amounts.
fn is_same_amount(one: &Value, other: &Value) -> bool {
    if is_zero(Some(one)) && is_zero(Some(other)) {
        return true;
    }
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return false };
    let amount = |value: &Value| value.as_str().and_then(parse_nanos);
    let is_in_other = |(name, value): (&String, &Value)| {
        other.get(name).is_some_and(|other| amount(other) == amount(value))
    };
    one.len() == other.len() && one.iter().all(is_in_other)
}

/// Adds the node selector and the tolerations of the class.
fn set_scheduling(pod: &mut Value, scheduling: &Value) -> Result<(), String> {
    for (key, wanted) in scheduling["nodeSelector"].as_object().into_iter().flatten() {
        let given = &pod["spec"]["nodeSelector"][key];
        if !given.is_null() && given != wanted {
            let shown = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                shown(wanted),
                shown(given)
            ));
        }
        pod["spec"]["nodeSelector"][key] = wanted.clone();
    }
    let added = scheduling["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !added.is_empty() {
        let given = pod["spec"]["tolerations"].as_array().map(Vec::as_slice).unwrap_or_default();
        let all = given.iter().chain(added).cloned().collect::<Vec<_>>();
        pod["spec"]["tolerations"] = merge_tolerations(&all).into();
    }
    Ok(())
}

/// Drops the tolerations that another one includes. Keeps the first of several equal ones.
fn merge_tolerations(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let is_known = merged.iter().any(|other| includes(other, one));
        let comes_larger = || all[at + 1..].iter().any(|other| other != one && includes(other, one));
        if !is_known && !comes_larger() {
            merged.push(one.clone());
        }
    }
    merged
}

/// Returns whether `larger` tolerates everything that `smaller` does.
fn includes(larger: &Value, smaller: &Value) -> bool {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap_or_default().to_owned();
    let is_same = |field: &str| text(larger, field) == text(smaller, field);
    if larger == smaller {
        return true;
    }
    let operator = text(larger, "operator");
    let has_key = is_same("key") || text(larger, "key").is_empty() && operator == "Exists";
    let has_effect = is_same("effect") || text(larger, "effect").is_empty();
    if !has_key || !has_effect {
        return false;
    }
    if text(larger, "effect") == "NoExecute"
        && let Some(limit_s) = larger["tolerationSeconds"].as_i64()
        && smaller["tolerationSeconds"].as_i64().is_none_or(|seconds| seconds > limit_s)
    {
        return false;
    }
    match &*operator {
        "" | "Equal" => text(smaller, "operator") == "Equal" && is_same("value"),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_that_another_includes_is_dropped() {
        let exact = json!({"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"});
        let any = json!({"key": "a", "operator": "Exists"});
        let other = json!({"key": "c", "operator": "Exists"});
        let check = |all: &[&Value], expected: &[&Value]| {
            let all = all.iter().map(|&one| one.clone()).collect::<Vec<_>>();
            assert_eq!(merge_tolerations(&all).iter().collect::<Vec<_>>(), expected);
        };
        check(&[&exact, &any, &other], &[&any, &other]);
        check(&[&any, &exact], &[&any]);
        check(&[&exact, &exact], &[&exact]);
    }

    #[test]
    fn a_pod_that_contradicts_its_class_is_refused() {
        let scheduling = json!({"nodeSelector": {"disk": "ssd"}});
        let mut pod = json!({"spec": {"nodeSelector": {"disk": "tape"}}});
        let why =
            "conflict: runtimeClass.scheduling.nodeSelector[disk] = ssd; pod.spec.nodeSelector[disk] = tape";
        assert_eq!(set_scheduling(&mut pod, &scheduling), Err(why.to_owned()));
        let mut pod = json!({"spec": {"nodeSelector": {"a": "b"}}});
        assert_eq!(set_scheduling(&mut pod, &scheduling), Ok(()));
        assert_eq!(pod["spec"]["nodeSelector"], json!({"a": "b", "disk": "ssd"}));
    }

    #[test]
    fn the_overhead_is_that_of_the_class() {
        let mut pod = json!({"spec": {"overhead": {"cpu": "0.25"}}});
        let class = json!({"podFixed": {"cpu": "250m"}});
        assert_eq!(set_overhead(&mut pod, &class), Ok(()));
        assert_eq!(pod["spec"]["overhead"]["cpu"], "250m");
        let other = json!({"podFixed": {"cpu": "1"}});
        assert_eq!(set_overhead(&mut pod, &other), Err(OTHER_OVERHEAD.to_owned()));
    }
}
