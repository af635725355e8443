//! Autoscalers in two versions: v1 knows one CPU target, v2 a list of metrics. Stored as v2.
//!
//! What v1 cannot say travels in annotations, as in Kubernetes, so nothing is lost on the way through v1.

use serde_json::{Map, Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";

/// The autoscaler in this version of its group.
pub fn to_version(mut object: Value, version: &str) -> Value {
    let stored = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let wanted = format!("autoscaling/{version}");
    if stored != wanted {
        match version {
            "v1" => to_v1(&mut object),
            _ => to_v2(&mut object),
        }
        object["apiVersion"] = wanted.into();
    }
    object
}

fn to_v2(object: &mut Value) {
    let mut metrics = take_annotation(object, METRICS).and_then(into_list).unwrap_or_default();
    if let Some(percent) = take(object, "spec", "targetCPUUtilizationPercentage") {
        metrics.insert(
            0,
            json!({"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": percent}}}),
        );
    }
    put(object, "spec", "metrics", (!metrics.is_empty()).then(|| metrics.into()));
    let behavior = take_annotation(object, BEHAVIOR);
    put(object, "spec", "behavior", behavior);
    let mut current = take_annotation(object, CURRENT_METRICS).and_then(into_list).unwrap_or_default();
    if let Some(percent) = take(object, "status", "currentCPUUtilizationPercentage") {
        current.insert(
            0,
            json!({"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": percent}}}),
        );
    }
    put(object, "status", "currentMetrics", (!current.is_empty()).then(|| current.into()));
    let conditions = take_annotation(object, CONDITIONS);
    put(object, "status", "conditions", conditions);
}

fn to_v1(object: &mut Value) {
    let metrics = take(object, "spec", "metrics").and_then(into_list).unwrap_or_default();
    let (cpu, others) = split_cpu(metrics, "target");
    put(object, "spec", "targetCPUUtilizationPercentage", cpu);
    annotate(object, METRICS, (!others.is_empty()).then(|| others.into()));
    let behavior = take(object, "spec", "behavior");
    annotate(object, BEHAVIOR, behavior);
    let current = take(object, "status", "currentMetrics").and_then(into_list).unwrap_or_default();
    let (cpu, others) = split_cpu(current, "current");
    put(object, "status", "currentCPUUtilizationPercentage", cpu);
    annotate(object, CURRENT_METRICS, (!others.is_empty()).then(|| others.into()));
    let conditions = take(object, "status", "conditions");
    annotate(object, CONDITIONS, conditions);
}

/// The first CPU utilization among the metrics, and the rest.
fn split_cpu(metrics: Vec<Value>, part: &str) -> (Option<Value>, Vec<Value>) {
    let percent = |metric: &Value| {
        let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        is_cpu.then(|| metric["resource"][part]["averageUtilization"].clone()).filter(|one| !one.is_null())
    };
    let at = metrics.iter().position(|metric| percent(metric).is_some());
    let mut others = metrics;
    let cpu = at.and_then(|at| percent(&others.remove(at)));
    (cpu, others)
}

fn into_list(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(list) => Some(list),
        _ => None,
    }
}

fn take(object: &mut Value, part: &str, field: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(field)
}

fn put(object: &mut Value, part: &str, field: &str, value: Option<Value>) {
    if let (Some(value), Some(fields)) = (value, object.as_object_mut()) {
        let part = fields.entry(part).or_insert_with(|| Value::Object(Map::new()));
        if let Some(part) = part.as_object_mut() {
            part.insert(field.into(), value);
        }
    }
}

fn take_annotation(object: &mut Value, name: &str) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(name)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    serde_json::from_str(text.as_str()?).ok()
}

fn annotate(object: &mut Value, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        object["metadata"]["annotations"][name] = value.to_string().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_survives_the_way_through_v1() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "a"}, "status": {},
            "spec": {"maxReplicas": 3, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}}}]}});
        let v1 = to_version(v2.clone(), "v1");
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(v1["spec"].get("metrics"), None);
        assert_eq!(to_version(v1, "v2"), v2);
    }
}
