//! HorizontalPodAutoscaler: adapts the number of Pods to the load.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::encode;
use crate::kinds::autoscaling::versions::{to_storage, to_version};
use crate::kinds::subresource::STATUS;
use crate::names;
use crate::object::fill::{JsonObject, object_mut, object_or_insert, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age, shortened};
use crate::resource::declaration::{BuiltInKind, VersionConversion};
use crate::resource::strategy::{PLAIN, SPEC};
use crate::resource::value_at::{Errors, ValueAt};

const METRIC_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// The number of metrics that are printed; further ones are only counted.
const SHOWN: usize = 2;

/// Adapts the number of Pods to the load; this is the stored version.
const HORIZONTAL_POD_AUTOSCALER: BuiltInKind = BuiltInKind {
    short_names: &["hpa"],
    categories: &["all"],
    subresources: &[STATUS],
    stored_in: ("autoscaling", "v2"),
    conversion: Some(VersionConversion {
        is_current: |resource, bytes| bytes.starts_with(encode::type_prefix(resource).as_bytes()),
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
    ..BuiltInKind::namespaced("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
};

/// Version v1, which supports one CPU target.
pub(crate) static HORIZONTAL_POD_AUTOSCALER_V1: BuiltInKind =
    BuiltInKind { version: "v1", defaults: Some(defaults_v1), ..HORIZONTAL_POD_AUTOSCALER };

/// Version v2, which supports a list of metrics.
pub(crate) static HORIZONTAL_POD_AUTOSCALER_V2: BuiltInKind = HORIZONTAL_POD_AUTOSCALER;

/// Validates a HorizontalPodAutoscaler.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
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

/// Fills in the defaults of a HorizontalPodAutoscaler in autoscaling/v1.
fn defaults_v1(object: &mut JsonObject) {
    if let Some(spec) = object_or_insert(object, "spec") {
        set_if_absent(spec, "minReplicas", 1);
    }
}

/// Fills in the defaults of a HorizontalPodAutoscaler in autoscaling/v2.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = object_or_insert(object, "spec") else { return };
    set_if_absent(spec, "minReplicas", 1);
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    set_if_zero(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
    );
    let Some(behavior) = object_mut(spec, "behavior") else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(up) = object_or_insert(behavior, "scaleUp") {
        set_if_absent(up, "stabilizationWindowSeconds", 0);
        set_if_absent(up, "selectPolicy", "Max");
        set_if_absent(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = object_or_insert(behavior, "scaleDown") {
        set_if_absent(down, "selectPolicy", "Max");
        set_if_absent(down, "policies", json!([percent]));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = read::value_at(object, "spec.scaleTargetRef").unwrap_or(&Value::Null);
    vec![
        read::name(object).into(),
        format!("{}/{}", read::string_at(target, "kind"), read::string_at(target, "name")).into(),
        metrics(object).into(),
        read::scalar_at(object, "spec.minReplicas").unwrap_or_else(|| "<unset>".to_owned()).into(),
        read::integer_at(object, "spec.maxReplicas").into(),
        read::integer_at(object, "status.currentReplicas").into(),
        age::age_of_object(object, now).into(),
    ]
}

fn metrics(object: &Value) -> String {
    let older = older_metric(object);
    let specs =
        older.as_ref().map_or(read::list_at(object, "spec.metrics"), |(spec, _)| std::slice::from_ref(spec));
    let statuses = match &older {
        Some((_, status)) => std::slice::from_ref(status),
        None => read::list_at(object, "status.currentMetrics"),
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

/// Returns the only metric of `autoscaling/v1`, which has separate fields, in the newer form.
fn older_metric(object: &Value) -> Option<(Value, Value)> {
    let target = read::value_at(object, "spec.targetCPUUtilizationPercentage")?;
    let current = read::value_at(object, "status.currentCPUUtilizationPercentage");
    let resource = |key: &str, value: Option<&Value>| json!({ "type": "Resource", "resource": { "name": "cpu", key: { "averageUtilization": value } } });
    Some((resource("target", Some(target)), resource("current", current)))
}

fn metric(spec: &Value, status: &Value) -> String {
    match read::string_at(spec, "type") {
        "External" => amount(read::value_at(spec, "external"), read::value_at(status, "external")),
        "Object" => amount(read::value_at(spec, "object"), read::value_at(status, "object")),
        "Pods" => average(read::value_at(spec, "pods"), read::value_at(status, "pods")),
        "Resource" => resource(read::value_at(spec, "resource"), read::value_at(status, "resource")),
        "ContainerResource" => {
            resource(read::value_at(spec, "containerResource"), read::value_at(status, "containerResource"))
        }
        _ => "<unknown type>".to_owned(),
    }
}

/// Returns the value at a path, or `<unknown>`.
fn text_or_unknown(value: Option<&Value>, path: &str) -> String {
    value.and_then(|value| read::scalar_at(value, path)).unwrap_or_else(|| "<unknown>".to_owned())
}

fn target(spec: Option<&Value>, path: &str) -> Option<String> {
    spec.and_then(|spec| read::scalar_at(spec, path))
}

fn amount(spec: Option<&Value>, status: Option<&Value>) -> String {
    match target(spec, "target.averageValue") {
        Some(target) => format!("{}/{target} (avg)", text_or_unknown(status, "current.averageValue")),
        None => {
            format!("{}/{}", text_or_unknown(status, "current.value"), text_or_unknown(spec, "target.value"))
        }
    }
}

fn average(spec: Option<&Value>, status: Option<&Value>) -> String {
    format!(
        "{}/{}",
        text_or_unknown(status, "current.averageValue"),
        text_or_unknown(spec, "target.averageValue")
    )
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
