//! HorizontalPodAutoscaler: follows a load with the number of Pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::autoscaling::versions::{to_storage, to_version};
use crate::kinds::declaration::{Conversion, Kind, STATUS};
use crate::kinds::fill::{Fields, fill, fill_zero, inner, made};
use crate::kinds::names;
use crate::kinds::printing::{Column, age, read, shortened};
use crate::kinds::strategy::{PLAIN, SPEC};
use crate::kinds::validate::at::{At, Errors};
use crate::object::encode;

const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// More metrics than these are only counted.
const SHOWN: usize = 2;

/// Follows a load with the number of Pods, in the version it is stored in.
const HORIZONTAL_POD_AUTOSCALER: Kind = Kind {
    short_names: &["hpa"],
    categories: &["all"],
    subresources: &[STATUS],
    stored_in: ("autoscaling", "v2"),
    conversion: Some(Conversion {
        is_current: |resource, entry| entry.bytes.starts_with(encode::type_prefix(resource).as_bytes()),
        from_stored: to_version,
        to_stored: to_storage,
    }),
    strategy: PLAIN.with_status(SPEC),
    defaults: Some(defaults),
    validate: Some(validate),
    columns: &[
        Column::NAME,
        Column::text("Reference"),
        Column::text("Targets"),
        Column::text("MinPods"),
        Column::text("MaxPods"),
        Column::text("Replicas"),
        Column::text("Age"),
    ],
    cells: Some(cells),
    ..Kind::namespaced("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
};

/// Version v1, which knows one CPU target.
pub(crate) static HORIZONTAL_POD_AUTOSCALER_V1: Kind =
    Kind { version: "v1", defaults: Some(defaults_v1), ..HORIZONTAL_POD_AUTOSCALER };

/// Version v2, which knows a list of metrics.
pub(crate) static HORIZONTAL_POD_AUTOSCALER_V2: Kind = HORIZONTAL_POD_AUTOSCALER;

/// A HorizontalPodAutoscaler.
fn validate(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.is_set() && min.number() < 1 {
        min.invalid("must be greater than or equal to 1", errors);
    }
    if max.number() == 0 {
        max.required("must be set and greater than 0", errors);
    } else if max.number() < 0 {
        max.invalid("must be greater than or equal to 1", errors);
    }
    if min.is_set() && max.number() < min.number() {
        max.invalid("must be greater than or equal to `minReplicas`", errors);
    }
    let target = spec.field("scaleTargetRef");
    target.field("kind").must_be_named(names::path_segment, errors);
    target.field("name").must_be_named(names::path_segment, errors);
    for metric in spec.field("metrics").items() {
        let kind = metric.field("type");
        if kind.must_be_set(errors) {
            kind.must_be_one_of(&METRIC_TYPES, errors);
        }
    }
}

/// A HorizontalPodAutoscaler in autoscaling/v1.
fn defaults_v1(object: &mut Fields) {
    if let Some(spec) = made(object, "spec") {
        fill(spec, "minReplicas", 1);
    }
}

/// A HorizontalPodAutoscaler in autoscaling/v2.
fn defaults(object: &mut Fields) {
    let Some(spec) = made(object, "spec") else { return };
    fill(spec, "minReplicas", 1);
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    fill_zero(spec, "metrics", json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
    let Some(behavior) = inner(spec, "behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(up) = made(behavior, "scaleUp") {
        fill(up, "stabilizationWindowSeconds", 0);
        fill(up, "selectPolicy", "Max");
        fill(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = made(behavior, "scaleDown") {
        fill(down, "selectPolicy", "Max");
        fill(down, "policies", json!([percent]));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = read::at(object, "spec.scaleTargetRef").unwrap_or(&Value::Null);
    vec![
        read::name(object).into(),
        format!("{}/{}", read::text(target, "kind"), read::text(target, "name")).into(),
        metrics(object).into(),
        read::scalar(object, "spec.minReplicas").unwrap_or_else(|| "<unset>".to_owned()).into(),
        read::number(object, "spec.maxReplicas").into(),
        read::number(object, "status.currentReplicas").into(),
        age::of(object, now).into(),
    ]
}

fn metrics(object: &Value) -> String {
    let older = older_metric(object);
    let specs =
        older.as_ref().map_or(read::list(object, "spec.metrics"), |(spec, _)| std::slice::from_ref(spec));
    let statuses = match &older {
        Some((_, status)) => std::slice::from_ref(status),
        None => read::list(object, "status.currentMetrics"),
    };
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let printed: Vec<_> = specs
        .iter()
        .enumerate()
        .map(|(at, spec)| metric(spec, statuses.get(at).unwrap_or(&Value::Null)))
        .collect();
    shortened(&printed, SHOWN, ", ")
}

/// `autoscaling/v1` knows one metric, with fields of its own: the same in the newer form.
fn older_metric(object: &Value) -> Option<(Value, Value)> {
    let target = read::at(object, "spec.targetCPUUtilizationPercentage")?;
    let current = read::at(object, "status.currentCPUUtilizationPercentage");
    let resource = |key: &str, value: Option<&Value>| json!({ "type": "Resource", "resource": { "name": "cpu", key: { "averageUtilization": value } } });
    Some((resource("target", Some(target)), resource("current", current)))
}

fn metric(spec: &Value, status: &Value) -> String {
    match read::text(spec, "type") {
        "External" => amount(read::at(spec, "external"), read::at(status, "external")),
        "Object" => amount(read::at(spec, "object"), read::at(status, "object")),
        "Pods" => average(read::at(spec, "pods"), read::at(status, "pods")),
        "Resource" => resource(read::at(spec, "resource"), read::at(status, "resource")),
        "ContainerResource" => {
            resource(read::at(spec, "containerResource"), read::at(status, "containerResource"))
        }
        _ => "<unknown type>".to_owned(),
    }
}

/// The value at a path, or that nobody knows it.
fn known(value: Option<&Value>, path: &str) -> String {
    value.and_then(|value| read::scalar(value, path)).unwrap_or_else(|| "<unknown>".to_owned())
}

fn target(spec: Option<&Value>, path: &str) -> Option<String> {
    spec.and_then(|spec| read::scalar(spec, path))
}

fn amount(spec: Option<&Value>, status: Option<&Value>) -> String {
    match target(spec, "target.averageValue") {
        Some(target) => format!("{}/{target} (avg)", known(status, "current.averageValue")),
        None => format!("{}/{}", known(status, "current.value"), known(spec, "target.value")),
    }
}

fn average(spec: Option<&Value>, status: Option<&Value>) -> String {
    format!("{}/{}", known(status, "current.averageValue"), known(spec, "target.averageValue"))
}

fn resource(spec: Option<&Value>, status: Option<&Value>) -> String {
    let name = target(spec, "name").unwrap_or_default();
    if target(spec, "target.averageValue").is_some() {
        return format!("{name}: {}", average(spec, status));
    }
    let percent = |number: String| format!("{number}%");
    let current =
        target(status, "current.averageUtilization").map_or_else(|| "<unknown>".to_owned(), percent);
    let wanted = target(spec, "target.averageUtilization").map_or_else(|| "<auto>".to_owned(), percent);
    format!("{name}: {current}/{wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_show_what_is_and_what_is_wanted() {
        let object = json!({
            "metadata": {"name": "h"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
                {"type": "External", "external": {"target": {"averageValue": "10"}}},
                {"type": "Pods", "pods": {"target": {"averageValue": "1"}}}]},
            "status": {"currentReplicas": 2, "currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40}}}]}});
        let printed = json!([
            "h",
            "Deployment/web",
            "cpu: 40%/80%, <unknown>/10 (avg) + 1 more...",
            "<unset>",
            5,
            2,
            "<unknown>"
        ]);
        assert_eq!(Value::from(cells(&object, Timestamp::UNIX_EPOCH)), printed);
        let older = json!({"spec": {"targetCPUUtilizationPercentage": 70}});
        assert_eq!(metrics(&older), "cpu: <unknown>/70%");
    }
}
