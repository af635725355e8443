//! Drops and reports the fields that a schema does not declare; the strict decoding of built-in kinds and the pruning
//! of custom kinds share this code.
//!
//! Names are matched exactly. A value of the wrong type is left alone; the type check reports it. Paths are reported in
//! alphabetical order, because decoding preserves no other order.

use serde_json::{Map, Value};

use super::{ObjectSchema, Schema, SchemaType};
use crate::field::{BoundedTexts, FieldPath};

/// Drops unknown fields; adds the path of each (`spec.containers[0].foo`) to the `report`, if there is one.
pub fn prune(schema: &Schema, value: &mut Value, report: Option<&mut BoundedTexts>) {
    UnknownFieldPruner { report }.value(schema, value, &FieldPath::Root);
}

struct UnknownFieldPruner<'r> {
    report: Option<&'r mut BoundedTexts>,
}

impl UnknownFieldPruner<'_> {
    fn value(&mut self, schema: &Schema, value: &mut Value, path: &FieldPath<'_>) {
        match (&schema.kind, value) {
            (SchemaType::Object(object), Value::Object(fields)) => {
                self.fields(object, schema.preserve_unknown, fields, path);
            }
            (SchemaType::Array(items), Value::Array(elements)) => {
                let schema = &*items.schema;
                if !matches!(schema.kind, SchemaType::Object(_) | SchemaType::Array(_)) {
                    return;
                }
                for (at, element) in elements.iter_mut().enumerate() {
                    self.value(schema, element, &path.index(at));
                }
            }
            _ => {}
        }
    }

    fn fields(
        &mut self,
        object: &ObjectSchema,
        keep: bool,
        fields: &mut Map<String, Value>,
        path: &FieldPath<'_>,
    ) {
        fields.retain(|name, value| {
            let path = path.field(name);
            match object.properties.get(name.as_str()).or(object.additional.as_deref()) {
                Some(property) => self.value(&property.schema, value, &path),
                None if keep => {}
                None => {
                    self.note(&path);
                    return false;
                }
            }
            true
        });
    }

    fn note(&mut self, path: &FieldPath<'_>) {
        if let Some(report) = &mut self.report {
            report.push_with(|| path.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::built_in;

    #[track_caller]
    fn check(kind: (&str, &str), mut value: Value, unknown: &[&str], left: &Value) {
        let schema = built_in(kind.0, "v1", kind.1).expect("a served kind");
        let mut report = BoundedTexts::new();
        prune(&schema, &mut value, Some(&mut report));
        assert_eq!(*report, *unknown);
        assert_eq!(&value, left);
    }

    #[test]
    fn unknown_fields_of_built_in_kinds_are_dropped_and_named_by_path() {
        check(
            ("", "ConfigMap"),
            json!({"metadata": {"name": "a", "lables": {}}, "data": {"k": "1"}, "dataa": {}}),
            &["dataa", "metadata.lables"],
            &json!({"metadata": {"name": "a"}, "data": {"k": "1"}}),
        );
        check(
            ("apps", "Deployment"),
            json!({"spec": {"replica": 1, "Replicas": 3, "template": {"spec": {"containers": [
                {"name": "a", "imagee": "y", "ENV": [], "resources": {"limits": {"cpu": 1}}}]}}}}),
            &[
                "spec.Replicas",
                "spec.replica",
                "spec.template.spec.containers[0].ENV",
                "spec.template.spec.containers[0].imagee",
            ],
            &json!({"spec": {"template": {"spec": {"containers": [
                {"name": "a", "resources": {"limits": {"cpu": 1}}}]}}}}),
        );
    }

    #[test]
    fn raw_parts_and_wrong_types_are_left_alone() {
        check(
            ("apps", "ControllerRevision"),
            json!({"data": {"anything": [1]}, "metadata": []}),
            &[],
            &json!({"data": {"anything": [1]}, "metadata": []}),
        );
    }
}
