//! Autoscalers and Scale.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::{age, read};
use super::shortened;
use crate::kinds::printing::Column;

/// More metrics than these are only counted.
const SHOWN: usize = 2;

/// The columns of a Scale.
pub(crate) static SCALE_COLUMNS: [Column; 4] =
    [Column::text("Name"), Column::number("Desired"), Column::number("Available"), Column::text("Age")];

pub(crate) fn scale(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        read::name(object).into(),
        read::number(object, "spec.replicas").into(),
        read::number(object, "status.replicas").into(),
        age::of(object, now).into(),
    ]
}

pub(crate) fn horizontal_pod_autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
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
        assert_eq!(Value::from(horizontal_pod_autoscaler(&object, Timestamp::UNIX_EPOCH)), printed);
        let older = json!({"spec": {"targetCPUUtilizationPercentage": 70}});
        assert_eq!(metrics(&older), "cpu: <unknown>/70%");
    }
}
