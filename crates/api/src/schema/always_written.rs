//! Adds the fields that Kubernetes' own types write even if they are empty: `status: {}`, `restartCount: 0`,
//! `eventTime: null`.
//!
//! It runs last, after defaults: a default fills in absent fields, and this step leaves none absent.

use serde_json::{Map, Value};

use super::typecheck::zero;
use super::{ObjectSchema, Presence, Schema, SchemaType};

/// Adds the fields that are always written.
pub fn add_always_written(schema: &Schema, value: &mut Value) {
    match (&schema.kind, value) {
        (SchemaType::Object(object), Value::Object(fields)) => add_to_fields(object, fields),
        (SchemaType::Array(items), Value::Array(elements)) if has_fields(&items.schema) => {
            for element in elements {
                add_always_written(&items.schema, element);
            }
        }
        _ => {}
    }
}

fn add_to_fields(object: &ObjectSchema, fields: &mut Map<String, Value>) {
    for (name, property) in &object.properties {
        match property.presence {
            Presence::Always if !fields.contains_key(&**name) => {
                fields.insert(name.to_string(), zero(&property.schema));
            }
            Presence::Null if !fields.contains_key(&**name) => {
                fields.insert(name.to_string(), Value::Null);
            }
            _ => {}
        }
    }
    for (name, value) in fields {
        if let Some(property) = object.properties.get(name.as_str()).or(object.additional.as_deref()) {
            add_always_written(&property.schema, value);
        }
    }
}

fn has_fields(schema: &Schema) -> bool {
    matches!(schema.kind, SchemaType::Object(_) | SchemaType::Array(_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::built_in;

    #[track_caller]
    fn check(kind: (&str, &str, &str), mut value: Value, expected: &Value) {
        add_always_written(&built_in(kind.0, kind.1, kind.2).expect("a served kind"), &mut value);
        assert_eq!(&value, expected);
    }

    #[test]
    fn always_written_fields_appear() {
        check(
            ("coordination.k8s.io", "v1", "Lease"),
            json!({"metadata": {"name": "a"}}),
            &json!({"metadata": {"name": "a"}, "spec": {}}),
        );
        check(
            ("rbac.authorization.k8s.io", "v1", "Role"),
            json!({"metadata": {}}),
            &json!({"metadata": {}, "rules": null}),
        );
        check(
            ("autoscaling", "v2", "HorizontalPodAutoscaler"),
            json!({"metadata": {}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}}}),
            &json!({"metadata": {}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a"}},
                "status": {"desiredReplicas": 0, "currentMetrics": null}}),
        );
        check(
            ("", "v1", "Pod"),
            json!({"metadata": {}, "spec": {"containers": [{"name": "a"}]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            &json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {}}]}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}]}}),
        );
    }
}
