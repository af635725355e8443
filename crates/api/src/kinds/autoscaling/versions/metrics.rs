//! Converts metrics between v2 and v1's types for them, which occur only in annotations.
//!
//! A single table maps each v1 field to its v2 field. v1 has no target type: the type follows from the fields that are
//! present.

use serde_json::{Map, Value, json};

/// Whether metrics belong to the spec or to the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsPart {
    Target,
    Current,
}

impl MetricsPart {
    /// Returns the v2 field that holds the amounts.
    fn name(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Current => "current",
        }
    }

    fn sources(self) -> &'static [MetricFields] {
        match self {
            Self::Target => &TARGETS,
            Self::Current => &CURRENTS,
        }
    }
}

/// The fields of one kind of metric: the metric's name, and for each field its v1 name, its v2 path, and what v1 writes
/// if it is absent (`""` for nothing).
type MetricFields = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

const ZERO: &str = "0";

const TARGETS: [MetricFields; 5] = [
    (
        "object",
        &[
            ("target", "/describedObject", ""),
            ("metricName", "/metric/name", ""),
            ("targetValue", "/target/value", ZERO),
            ("selector", "/metric/selector", ""),
            ("averageValue", "/target/averageValue", ""),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", ""),
            ("targetAverageValue", "/target/averageValue", ZERO),
            ("selector", "/metric/selector", ""),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", ""),
            ("targetAverageUtilization", "/target/averageUtilization", ""),
            ("targetAverageValue", "/target/averageValue", ""),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", ""),
            ("targetAverageUtilization", "/target/averageUtilization", ""),
            ("targetAverageValue", "/target/averageValue", ""),
            ("container", "/container", ""),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", ""),
            ("metricSelector", "/metric/selector", ""),
            ("targetValue", "/target/value", ""),
            ("targetAverageValue", "/target/averageValue", ""),
        ],
    ),
];

const CURRENTS: [MetricFields; 5] = [
    (
        "object",
        &[
            ("target", "/describedObject", ""),
            ("metricName", "/metric/name", ""),
            ("currentValue", "/current/value", ZERO),
            ("selector", "/metric/selector", ""),
            ("averageValue", "/current/averageValue", ""),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", ""),
            ("currentAverageValue", "/current/averageValue", ZERO),
            ("selector", "/metric/selector", ""),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", ""),
            ("currentAverageUtilization", "/current/averageUtilization", ""),
            ("currentAverageValue", "/current/averageValue", ZERO),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", ""),
            ("currentAverageUtilization", "/current/averageUtilization", ""),
            ("currentAverageValue", "/current/averageValue", ZERO),
            ("container", "/container", ""),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", ""),
            ("metricSelector", "/metric/selector", ""),
            ("currentValue", "/current/value", ZERO),
            ("currentAverageValue", "/current/averageValue", ""),
        ],
    ),
];

/// Converts v2 metrics to v1.
pub(super) fn to_v1(metrics: &[Value], part: MetricsPart) -> Value {
    let metric = |metric: &Value| {
        let mut converted = json!({"type": metric["type"]});
        for (name, fields) in part.sources() {
            if let Some(source) = metric.get(name).filter(|source| source.is_object()) {
                let field = |(v1, v2, zero): &(&str, &str, &str)| {
                    let given = source.pointer(v2).cloned();
                    let value = given.or_else(|| (!zero.is_empty()).then(|| (*zero).into()))?;
                    Some(((*v1).to_owned(), value))
                };
                converted[*name] = Value::Object(fields.iter().filter_map(field).collect());
            }
        }
        converted
    };
    metrics.iter().map(metric).collect()
}

/// Converts v1 metrics to v2; returns `None` if the value is not a list. Metrics already in v2 form stay as they are:
/// they were once written that way.
pub(super) fn from_v1(list: Value, part: MetricsPart) -> Option<Value> {
    let Value::Array(mut metrics) = list else { return None };
    for metric in metrics.iter_mut().filter_map(Value::as_object_mut) {
        for (name, fields) in part.sources() {
            if let Some(Value::Object(source)) = metric.get_mut(*name)
                && !is_v2(name, source, part)
            {
                *source = source_from_v1(name, source, fields, part);
            }
        }
    }
    Some(metrics.into())
}

fn is_v2(name: &str, source: &Map<String, Value>, part: MetricsPart) -> bool {
    let is_of_resource = matches!(name, "resource" | "containerResource");
    source.contains_key(if is_of_resource { part.name() } else { "metric" })
}

fn source_from_v1(
    name: &str,
    source: &Map<String, Value>,
    fields: &[(&str, &str, &str)],
    part: MetricsPart,
) -> Map<String, Value> {
    let mut converted = json!({ part.name(): {} });
    for (v1, v2, zero) in fields {
        let given = source.get(*v1).filter(|value| !value.is_null()).cloned();
        if let Some(value) = given.or_else(|| (!zero.is_empty()).then(|| (*zero).into())) {
            set(&mut converted, v2, value);
        }
    }
    if part == MetricsPart::Target {
        give_type(name, &mut converted["target"]);
    }
    match converted {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Sets a value at a path of one or two fields.
fn set(object: &mut Value, place: &str, value: Value) {
    let path = place.trim_start_matches('/');
    match path.split_once('/') {
        Some((outer, inner)) => object[outer][inner] = value,
        None => object[path] = value,
    }
}

/// Sets the type of a target.
fn give_type(name: &str, target: &mut Value) {
    let has = |field: &str| target.get(field).is_some();
    let kind = match name {
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        "object" if !has("averageValue") => "Value",
        "external" if has("value") => "Value",
        _ => "AverageValue",
    };
    // v1 cannot omit the value, and zero is not a target.
    if name == "object" && kind == "AverageValue" && target["value"] == ZERO {
        target.as_object_mut().expect("made as one").remove("value");
    }
    target["type"] = kind.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(part: MetricsPart, v2: &Value, v1: &Value) {
        assert_eq!(&to_v1(std::slice::from_ref(v2), part)[0], v1);
        assert_eq!(&from_v1(json!([v1]), part).expect("a list")[0], v2);
        assert_eq!(&from_v1(json!([v2]), part).expect("a list")[0], v2, "as it was once written");
    }

    #[test]
    fn metrics_of_the_spec_are_the_same_in_both_versions() {
        let check = |v2: &Value, v1: &Value| check(MetricsPart::Target, v2, v1);
        let object = json!({"kind": "Ingress", "name": "i"});
        let selector = json!({"matchLabels": {"a": "b"}});
        check(
            &json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "m"},
                "target": {"type": "Value", "value": "5"}}}),
            &json!({"type": "Object", "object": {"target": object, "metricName": "m", "targetValue": "5"}}),
        );
        check(
            &json!({"type": "Object", "object": {"describedObject": object, "metric": {"name": "m", "selector": selector},
                "target": {"type": "AverageValue", "averageValue": "5"}}}),
            &json!({"type": "Object", "object": {"target": object, "metricName": "m", "targetValue": "0",
                "selector": selector, "averageValue": "5"}}),
        );
        check(
            &json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}}),
            &json!({"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}}),
        );
        check(
            &json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                "target": {"type": "Utilization", "averageUtilization": 5}}}),
            &json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                "targetAverageUtilization": 5}}),
        );
        check(
            &json!({"type": "External", "external": {"metric": {"name": "m", "selector": selector},
                "target": {"type": "Value", "value": "5"}}}),
            &json!({"type": "External", "external": {"metricName": "m", "metricSelector": selector, "targetValue": "5"}}),
        );
    }

    #[test]
    fn metrics_of_the_status_are_the_same_in_both_versions() {
        let check = |v2: &Value, v1: &Value| check(MetricsPart::Current, v2, v1);
        check(
            &json!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageValue": "1", "averageUtilization": 5}}}),
            &json!({"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 5, "currentAverageValue": "1"}}),
        );
        check(
            &json!({"type": "Object", "object": {"describedObject": {"kind": "K", "name": "n"}, "metric": {"name": "m"},
                "current": {"value": "0", "averageValue": "2"}}}),
            &json!({"type": "Object", "object": {"target": {"kind": "K", "name": "n"}, "metricName": "m",
                "currentValue": "0", "averageValue": "2"}}),
        );
        check(
            &json!({"type": "External", "external": {"metric": {"name": "m"}, "current": {"value": "3"}}}),
            &json!({"type": "External", "external": {"metricName": "m", "currentValue": "3"}}),
        );
    }
}
