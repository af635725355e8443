//! The rules a definition states in CEL (`x-kubernetes-validations`), compiled once and judged per object.
//!
//! Reading and evaluating expressions is kube-cel's; here its findings become causes in Kubernetes' words.

mod call_cost;
mod check;
mod cost;
mod expand;
mod faults;
mod overloads;
mod rule;
mod size;
mod source;
mod types;
mod unify;

pub use faults::faults;

use kube_cel::{CompiledSchema, ErrorKind, Validator, compile_schema};
use serde_json::Value;

use crate::field::{Error, Kind};

/// The key rules stand under.
const KEY: &str = "x-kubernetes-validations";

/// The compiled rules of one version of a custom kind.
#[derive(Debug)]
pub struct Cel(CompiledSchema);

impl Cel {
    /// The rules of a schema; `None` when it states none.
    pub fn compile(schema: &Value) -> Option<Self> {
        has_rules(schema).then(|| Self(compile_schema(schema)))
    }

    /// What the rules say about a new object, or about one that replaces `old`.
    pub fn judge(&self, new: &Value, old: Option<&Value>) -> Vec<Error> {
        let found = match Validator::new().validate_compiled(&self.0, new, old) {
            Ok(()) => return Vec::new(),
            Err(found) => found.into_vec(),
        };
        found.iter().map(|one| cause(one, new)).collect()
    }
}

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key(KEY) || fields.values().any(has_rules),
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

fn cause(found: &kube_cel::ValidationError, object: &Value) -> Error {
    let kind = match found.reason.as_deref() {
        Some("FieldValueForbidden") => Kind::Forbidden,
        Some("FieldValueRequired") => Kind::Required,
        Some("FieldValueDuplicate") => Kind::Duplicate,
        _ => Kind::Invalid,
    };
    let message = &found.message;
    let value = at(object, &found.field_path);
    let body = match kind {
        Kind::Forbidden => format!("Forbidden: {message}"),
        Kind::Required => format!("Required value: {message}"),
        kind => {
            let head = if kind == Kind::Duplicate { "Duplicate value" } else { "Invalid value" };
            match shown(value, found.kind != ErrorKind::ValidationFailure) {
                Some(value) => format!("{head}: {value}: {message}"),
                None => format!("{head}: {message}"),
            }
        }
    };
    let field = if found.field_path.is_empty() { "<nil>".to_owned() } else { found.field_path.clone() };
    Error { kind, field, body }
}

/// Scalars are repeated in the message; objects and lists are named when a rule could not be evaluated.
fn shown(value: Option<&Value>, is_failure: bool) -> Option<String> {
    match value? {
        Value::Object(_) => is_failure.then(|| "\"object\"".to_owned()),
        Value::Array(_) => is_failure.then(|| "\"array\"".to_owned()),
        scalar => Some(scalar.to_string()),
    }
}

/// The value at `spec.list[0].name`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.replace(['[', ']'], ".");
    path.split('.').filter(|step| !step.is_empty()).try_fold(object, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod judge_tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(new: &Value, old: Option<&Value>, expected: &[&str]) {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
                "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}},
            "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min may not exceed max"}]}}});
        let cel = Cel::compile(&schema).expect("the schema has rules");
        let found = cel.judge(new, old).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found, expected);
    }

    #[test]
    fn rules_are_judged_and_reported_in_kubernetes_words() {
        check(&json!({"spec": {"min": 1, "max": 2}}), None, &[]);
        check(&json!({"spec": {"min": 3, "max": 2}}), None, &["spec: Invalid value: min may not exceed max"]);
        let (old, new) = ("x", "y");
        check(
            &json!({"spec": {"min": 1, "max": 2, "fixed": new}}),
            Some(&json!({"spec": {"min": 1, "max": 2, "fixed": old}})),
            &[r#"spec.fixed: Invalid value: "y": is immutable"#],
        );
    }

    #[test]
    fn a_rule_that_cannot_be_read_is_found_at_its_place() {
        let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}}}}}]}});
        let found = faults(&definition, None);
        let place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
        assert_eq!(found.iter().map(|error| &*error.field).collect::<Vec<_>>(), [place]);
    }

    #[test]
    fn a_schema_without_rules_costs_nothing() {
        assert!(Cel::compile(&json!({"type": "object"})).is_none());
    }
}
