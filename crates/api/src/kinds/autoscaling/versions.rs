//! Autoscalers in two versions: v1 supports one CPU target, v2 a list of metrics. They are stored as v2.
//!
//! Annotations hold what v1 cannot express, in the exact text that Kubernetes writes, so v1 loses nothing and
//! autoscalers may move between the two servers. As in Kubernetes, this changes the order of metrics. An annotation
//! that cannot be parsed is ignored.

mod behavior;
mod metrics;

use serde_json::{Map, Value, json};

use self::metrics::MetricsPart;
use crate::ordered::{FieldOrder, OrderedJson};
use crate::schema;

const KIND: &str = "HorizontalPodAutoscaler";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// The annotations that only v1 uses; they have no effect in a v2 object.
const TRAVELLING: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    CONDITIONS,
    CURRENT_METRICS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// The default CPU target, in percent.
const CPU_TARGET: i32 = 80;

/// The field order of Go's types. One order fits all of them, because no two types contradict each other.
static ORDER: FieldOrder = FieldOrder {
    names: &[
        "type",
        "status",
        "lastTransitionTime",
        "reason",
        "message",
        "object",
        "pods",
        "resource",
        "containerResource",
        "external",
        "target",
        "kind",
        "name",
        "apiVersion",
        "metricName",
        "metricSelector",
        "targetValue",
        "targetAverageUtilization",
        "targetAverageValue",
        "currentValue",
        "currentAverageUtilization",
        "currentAverageValue",
        "container",
        "selector",
        "averageValue",
        "matchLabels",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "ScaleUp",
        "ScaleDown",
        "StabilizationWindowSeconds",
        "SelectPolicy",
        "Policies",
        "Tolerance",
        "Type",
        "Value",
        "PeriodSeconds",
    ],
    inside: &[("matchLabels", &BY_NAME)],
    below: None,
};
static BY_NAME: FieldOrder = FieldOrder { names: &[], inside: &[], below: None };

/// Returns the autoscaler in this version of its group.
pub(crate) fn to_version(mut object: Value, version: &str) -> Value {
    let stored = object["apiVersion"].as_str().unwrap_or_default().to_owned();
    let wanted = format!("autoscaling/{version}");
    if stored != wanted {
        match version {
            "v1" => to_v1(&mut object),
            _ => to_v2(&mut object),
        }
        object["apiVersion"] = wanted.into();
        write_like_type(&mut object, version);
    }
    object
}

/// Returns the autoscaler in its stored form, if that differs from this version.
pub(crate) fn to_storage(object: &Value, version: &str) -> Option<Value> {
    let has_travelled = |name: &&str| object["metadata"]["annotations"].get(*name).is_some();
    match version {
        "v1" => Some(to_version(object.clone(), "v2")),
        _ if TRAVELLING.iter().any(has_travelled) => {
            let mut stored = object.clone();
            forget_annotations(&mut stored);
            Some(stored)
        }
        _ => None,
    }
}

/// Writes exactly the fields that Go's type for this version writes.
fn write_like_type(object: &mut Value, version: &str) {
    if let Some(schema) = schema::built_in("autoscaling", version, KIND)
        && schema::decode(&schema, object).is_ok()
    {
        schema::add_always_written(&schema, object);
    }
}

fn to_v2(object: &mut Value) {
    let read = |name: &str| annotation(object, name);
    let of_v1 = |part: MetricsPart| move |list: Value| metrics::from_v1(list, part);
    let metrics =
        read(METRICS).and_then(of_v1(MetricsPart::Target)).and_then(parse_annotation_as("spec", "metrics"));
    let behavior = read(BEHAVIOR)
        .and_then(|it| behavior::from_internal(&it))
        .and_then(parse_annotation_as("spec", "behavior"));
    let current = read(CURRENT_METRICS)
        .and_then(of_v1(MetricsPart::Current))
        .and_then(parse_annotation_as("status", "currentMetrics"));
    let conditions = read(CONDITIONS).and_then(parse_annotation_as("status", "conditions"));
    forget_annotations(object);
    let cpu = take(object, "spec", "targetCPUUtilizationPercentage");
    let mut metrics = metrics.and_then(into_list).unwrap_or_default();
    if cpu.is_some() || metrics.is_empty() {
        let percent = cpu.unwrap_or_else(|| CPU_TARGET.into());
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        metrics.push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
    }
    put(object, "spec", "metrics", Some(metrics.into()));
    put(object, "spec", "behavior", behavior);
    let used = take(object, "status", "currentCPUUtilizationPercentage").map(|percent| {
        json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}])
    });
    put(object, "status", "currentMetrics", current.or(used));
    put(object, "status", "conditions", conditions);
}

fn to_v1(object: &mut Value) {
    forget_annotations(object);
    let metrics = take(object, "spec", "metrics").and_then(into_list).unwrap_or_default();
    let (of_cpu, others): (Vec<_>, Vec<_>) =
        metrics.into_iter().partition(|metric| cpu_utilization(metric, "target").is_some());
    put(
        object,
        "spec",
        "targetCPUUtilizationPercentage",
        of_cpu.first().and_then(|one| cpu_utilization(one, "target")),
    );
    annotate(object, METRICS, &metrics::to_v1(&others, MetricsPart::Target));
    if let Some(behavior) = take(object, "spec", "behavior") {
        annotate(object, BEHAVIOR, &behavior::to_internal(&behavior));
    }
    let current = take(object, "status", "currentMetrics").and_then(into_list).unwrap_or_default();
    let used = current.iter().filter_map(|metric| cpu_utilization(metric, "current")).next_back();
    put(object, "status", "currentCPUUtilizationPercentage", used);
    annotate(object, CURRENT_METRICS, &metrics::to_v1(&current, MetricsPart::Current));
    let conditions = take(object, "status", "conditions").unwrap_or_default();
    annotate(object, CONDITIONS, &conditions);
}

/// Returns the CPU utilization of a metric.
fn cpu_utilization(metric: &Value, part: &str) -> Option<Value> {
    let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
    is_cpu.then(|| metric["resource"][part]["averageUtilization"].clone()).filter(|one| !one.is_null())
}

/// Returns a function that parses an annotation, if its value fits this field of v2.
fn parse_annotation_as(part: &'static str, field: &'static str) -> impl Fn(Value) -> Option<Value> {
    move |value| {
        let schema = schema::built_in("autoscaling", "v2", KIND)?;
        let mut object = json!({ part: { field: value } });
        schema::prune(&schema, &mut object, None);
        schema::decode(&schema, &mut object).ok()?;
        take(&mut object, part, field)
    }
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

fn annotation(object: &Value, name: &str) -> Option<Value> {
    serde_json::from_str(object["metadata"]["annotations"].get(name)?.as_str()?).ok()
}

fn forget_annotations(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|name, _| !TRAVELLING.contains(&name.as_str()));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Sets the annotation to the value as Go prints it; null sets nothing.
fn annotate(object: &mut Value, name: &str, value: &Value) {
    let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    if !is_empty {
        let text = serde_json::to_string(&OrderedJson(value, &ORDER)).expect("JSON values can be written");
        object["metadata"]["annotations"][name] = as_go_escapes(&text).into();
    }
}

/// Escapes JSON as Go does, so that it can be embedded in HTML. The characters occur only inside strings.
fn as_go_escapes(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(spec: &Value, status: &Value) -> Value {
        let mut object = json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
            "status": {"currentMetrics": null, "desiredReplicas": 0}});
        for (part, fields) in [("spec", spec), ("status", status)] {
            object[part]
                .as_object_mut()
                .expect("written above")
                .extend(fields.as_object().expect("fields").clone());
        }
        object
    }

    fn cpu_utilization(percent: i32) -> Value {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    }

    #[track_caller]
    fn annotation_of(object: &Value, name: &str, expected: &str) {
        assert_eq!(object["metadata"]["annotations"][name], *expected);
    }

    #[test]
    fn v2_survives_the_way_through_v1_as_kubernetes_writes_it() {
        let memory = json!({"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "Utilization", "averageUtilization": 70}}});
        let behavior = json!({"scaleDown": {"selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}], "tolerance": "100m"}});
        let used = json!({"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": 5, "averageValue": "10m"}}});
        let condition = json!({"type": "AbleToScale", "status": "True", "reason": "R", "message": "a < b",
            "lastTransitionTime": null});
        let first = v2(
            &json!({"metrics": [cpu_utilization(50), memory], "behavior": behavior}),
            &json!({"currentMetrics": [used], "conditions": [condition]}),
        );
        let v1 = to_version(first.clone(), "v1");
        assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(v1["spec"].get("metrics"), None);
        assert_eq!(
            v1["status"],
            json!({"currentReplicas": 0, "desiredReplicas": 0, "currentCPUUtilizationPercentage": 5})
        );
        annotation_of(
            &v1,
            METRICS,
            r#"[{"type":"Resource","resource":{"name":"memory","targetAverageUtilization":70}}]"#,
        );
        annotation_of(
            &v1,
            BEHAVIOR,
            r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":"100m"}}"#,
        );
        annotation_of(
            &v1,
            CURRENT_METRICS,
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":5,"currentAverageValue":"10m"}}]"#,
        );
        annotation_of(
            &v1,
            CONDITIONS,
            r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":null,"reason":"R","message":"a \u003c b"}]"#,
        );
        let mut expected = first;
        expected["spec"]["metrics"].as_array_mut().expect("two").reverse();
        assert_eq!(to_version(v1, "v2"), expected);
    }

    #[test]
    fn annotations_are_read_in_every_form_there_was() {
        let with = |name: &str, text: &str| {
            json!({"apiVersion": "autoscaling/v1", "metadata": {"annotations": {name: text}},
                "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"}}})
        };
        let check = |name: &str, text: &str, spec: &Value| {
            let mut expected = v2(spec, &json!({}));
            expected["metadata"] = json!({});
            assert_eq!(to_version(with(name, text), "v2"), expected, "{text}");
        };
        let memory = json!({"type": "Resource", "resource": {"name": "memory",
            "target": {"type": "AverageValue", "averageValue": "1Gi"}}});
        let of_v1 = r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1024Mi"}}]"#;
        check(METRICS, of_v1, &json!({"metrics": [memory]}));
        check(METRICS, &json!([memory]).to_string(), &json!({"metrics": [memory]}));
        check(METRICS, "nonsense", &json!({"metrics": [cpu_utilization(CPU_TARGET)]}));
        check(METRICS, r#"[{"type":5}]"#, &json!({"metrics": [cpu_utilization(CPU_TARGET)]}));
        let behavior = json!({"metrics": [cpu_utilization(CPU_TARGET)], "behavior": {"scaleUp": {"stabilizationWindowSeconds": 3}}});
        check(
            BEHAVIOR,
            r#"{"ScaleUp":{"StabilizationWindowSeconds":3,"Policies":null},"ScaleDown":null}"#,
            &behavior,
        );
        check(BEHAVIOR, r#"{"scaleUp":{"stabilizationWindowSeconds":3}}"#, &behavior);
        check(
            BEHAVIOR,
            r#"{"ScaleUp":null,"ScaleDown":null}"#,
            &json!({"metrics": [cpu_utilization(CPU_TARGET)]}),
        );
        check(BEHAVIOR, r#"{"ScaleUp":5}"#, &json!({"metrics": [cpu_utilization(CPU_TARGET)]}));
    }

    #[test]
    fn the_annotations_of_the_way_are_not_stored() {
        let mut object = v2(&json!({"metrics": [cpu_utilization(50)]}), &json!({}));
        assert_eq!(to_storage(&object, "v2"), None);
        object["metadata"]["annotations"] = json!({METRICS: "[]", "mine": "x"});
        let stored = to_storage(&object, "v2").expect("another object");
        assert_eq!(stored["metadata"]["annotations"], json!({"mine": "x"}));
    }
}
