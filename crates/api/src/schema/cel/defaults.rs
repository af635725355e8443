//! Checks that the defaults of a schema satisfy its rules.
//!
//! Each default is evaluated twice, as in Kubernetes: as its own replacement, so that transition rules apply, and
//! as a new value, for rules that also apply without an old value. All defaults of a schema share the budget of one
//! object. This runs only on schemas whose rules are valid.

use serde_json::{Map, Value};

use super::evaluate_rules::{RuleBudget, evaluate_default};
use super::program::CompiledSchema;
use crate::field::{Errors, FieldPath};

/// Returns the errors in the defaults of the schema at `place`.
pub(super) fn default_errors(schema: &Value, place: &str) -> Errors {
    let mut walk = DefaultsChecker { errors: Errors::new(), budget: RuleBudget::default() };
    walk.node(schema, &CompiledSchema::read(schema), &FieldPath::Root.field(place));
    walk.errors
}

struct DefaultsChecker {
    errors: Errors,
    budget: RuleBudget,
}

impl DefaultsChecker {
    /// Checks a node. Defaults are forbidden in the values of maps, so those are skipped.
    fn node(&mut self, schema: &Value, node: &CompiledSchema, path: &FieldPath<'_>) {
        if !node.has_rules || self.budget.is_spent {
            return;
        }
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            self.errors.append(evaluate_default(node, default, &path.field("default"), &mut self.budget));
        }
        if let Some(items) = &node.items {
            self.node(&schema["items"], items, &path.field("items"));
        }
        let properties = path.field("properties");
        for (name, schema) in schema["properties"].as_object().into_iter().flat_map(Map::iter) {
            if let Some(node) = node.properties.get(name) {
                self.node(schema, node, &properties.key(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: &Value, expected: &[&str]) {
        let schema = json!({"type": "object", "properties": {"v": value}});
        let found: Vec<_> = default_errors(&schema, "at").iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn defaults_keep_the_rules() {
        let text = |rule: &str| json!({"type": "string", "default": "x", "x-kubernetes-validations": [{"rule": rule}]});
        check(&text("self == 'x'"), &[]);
        check(
            &text("self != 'x'"),
            &[r#"at.properties[v].default: Invalid value: "x": failed rule: self != 'x'"#],
        );
        check(
            &json!({"type": "object", "default": {"a": 2}, "properties": {"a": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.a < 2", "fieldPath": ".a", "message": "too large"}]}),
            &["at.properties[v].default.a: Invalid value: too large"],
        );
        check(
            &json!({"type": "array", "items": text("self.size() > 1")}),
            &[r#"at.properties[v].items.default: Invalid value: "x": failed rule: self.size() > 1"#],
        );
    }

    #[test]
    fn defaults_are_evaluated_as_changed_and_as_new() {
        let rule = |rule: &str, is_optional: bool| {
            let rule = if is_optional {
                json!({"rule": rule, "optionalOldSelf": true})
            } else {
                json!({ "rule": rule })
            };
            json!({"type": "string", "default": "x", "x-kubernetes-validations": [rule]})
        };
        check(&rule("self == oldSelf", false), &[]);
        check(
            &rule("self != oldSelf", false),
            &[r#"at.properties[v].default: Invalid value: "x": failed rule: self != oldSelf"#],
        );
        check(&rule("!oldSelf.hasValue() || self == oldSelf.value()", true), &[]);
        check(
            &rule("oldSelf.hasValue()", true),
            &[r#"at.properties[v].default: Invalid value: "x": failed rule: oldSelf.hasValue()"#],
        );
    }

    #[test]
    fn all_defaults_together_have_one_budget() {
        let long = "x".repeat(1000);
        let list = json!({"type": "array", "items": {"type": "string"}, "default": vec![long; 60],
            "x-kubernetes-validations": [{"rule": "self.all(a, self.all(b, a + b != 'y'))"}]});
        let many: Map<_, _> = (0..100).map(|at| (format!("p{at:02}"), list.clone())).collect();
        let found = default_errors(&json!({"type": "object", "properties": many}), "at");
        assert_eq!(found.len(), 1, "nothing is evaluated after the budget is spent");
        assert!(found[0].to_string().contains("no further validation rules will be run"), "{found:?}");
    }
}
