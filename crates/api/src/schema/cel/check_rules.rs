//! Checks the rules of a definition: reports rules that do not compile or may cost too much, with their paths, and
//! defaults that break them.
//!
//! The cost of a rule is multiplied by how often its value can occur, and both the product and the sum over a schema
//! are limited. As in Kubernetes, this runs only on structurally valid schemas.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::KEY;
use super::cost_limits::{RULE_COST_MAX, SCHEMA_COST_MAX};
use super::defaults;
use super::rule::{Rule, RuleFindings};
use super::source::on_deep_stack;
use super::types::{DeclaredShape, DeclaredType, bound};
use crate::field::{Error, ErrorType, Errors};

/// How many rules are named if the sum exceeds its limit, and the minimum share of the limit that a rule must use to be
/// named.
const EXPENSIVE_NAMED: usize = 4;
const EXPENSIVE_MIN: u64 = SCHEMA_COST_MAX / 100;

/// Returns the errors in the rules of a definition. A schema that has not changed since `before` is not checked again,
/// because its objects are already being served.
pub fn rule_errors(definition: &Value, before: Option<&Value>) -> Errors {
    let versions =
        |definition: &Value| definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let known: Vec<Value> = before.map(versions).unwrap_or_default();
    let versions = versions(definition);
    let schemas: Vec<_> = versions.iter().map(|version| &version["schema"]["openAPIV3Schema"]).collect();
    let is_new = |schema: &Value| known.iter().all(|version| version["schema"]["openAPIV3Schema"] != *schema);
    // Kubernetes stores a schema shared by all versions in one place and reports that path.
    let shared = schemas.first().filter(|first| schemas.iter().all(|schema| schema == *first));
    let places: Vec<_> = if let Some(schema) = shared {
        vec![("spec.validation.openAPIV3Schema".to_owned(), *schema)]
    } else {
        let place = |at: usize| format!("spec.versions[{at}].schema.openAPIV3Schema");
        schemas.iter().enumerate().map(|(at, schema)| (place(at), *schema)).collect()
    };
    let new_schemas = places.into_iter().filter(|(_, schema)| super::has_rules(schema) && is_new(schema));
    let mut errors = Errors::new();
    for (place, schema) in new_schemas {
        errors.append(on_deep_stack(|| schema_rule_errors(schema, &place)));
    }
    errors
}

fn schema_rule_errors(schema: &Value, place: &str) -> Errors {
    let mut checker = RuleChecker { errors: Errors::new(), total: 0, expensive: Vec::new() };
    let declared = DeclaredType::read(schema, true);
    checker.node(&SchemaNode {
        schema,
        place: place.to_owned(),
        declared,
        cardinality: Some(1),
        uncorrelatable: None,
    });
    checker.sum(place);
    if checker.errors.is_empty() { defaults::default_errors(schema, place) } else { checker.errors }
}

/// A node of the schema with information derived from its ancestors.
struct SchemaNode<'a> {
    schema: &'a Value,
    place: String,
    declared: Option<Arc<DeclaredType>>,
    /// How often it can occur; `None` if a list or map above it is unbounded.
    cardinality: Option<u64>,
    /// The ancestor whose parts cannot be matched between old and new values.
    uncorrelatable: Option<String>,
}

impl<'a> SchemaNode<'a> {
    fn child(
        &self,
        schema: &'a Value,
        step: &str,
        declared: Option<&Arc<DeclaredType>>,
        is_correlatable: bool,
    ) -> Self {
        let is_root = schema["x-kubernetes-embedded-resource"] == true;
        let elements = elements_max(self.schema);
        let uncorrelatable = match &self.uncorrelatable {
            None if !is_correlatable => Some(self.place.clone()),
            inherited => inherited.clone(),
        };
        SchemaNode {
            schema,
            place: format!("{}.{step}", self.place),
            declared: declared.cloned().or_else(|| DeclaredType::read(schema, is_root)),
            cardinality: self.cardinality.zip(elements).map(|(outer, inner)| outer.saturating_mul(inner)),
            uncorrelatable,
        }
    }

    fn children(&self) -> Vec<SchemaNode<'a>> {
        let mut children = Vec::new();
        let is_granular = matches!(self.schema["x-kubernetes-map-type"].as_str(), None | Some("granular"));
        let shape = self.declared.as_ref().map(|declared| &declared.shape);
        let values = &self.schema["additionalProperties"];
        if values.is_object() {
            let declared = if let Some(DeclaredShape::Map(of)) = shape { Some(of) } else { None };
            children.push(self.child(values, "additionalProperties", declared, true));
        }
        for (name, schema) in self.schema["properties"].as_object().into_iter().flat_map(Map::iter) {
            let declared = match shape {
                Some(DeclaredShape::Object(fields)) => {
                    super::types::escape(name).and_then(|name| fields.get(&name))
                }
                _ => None,
            };
            children.push(self.child(schema, &format!("properties[{name}]"), declared, is_granular));
        }
        let items = &self.schema["items"];
        if items.is_object() {
            let declared = if let Some(DeclaredShape::List(of)) = shape { Some(of) } else { None };
            let is_map = self.schema["x-kubernetes-list-type"] == "map";
            children.push(self.child(items, "items", declared, is_map));
        }
        children
    }
}

/// Returns how many values one value of this schema holds; `None` if that is unbounded.
fn elements_max(schema: &Value) -> Option<u64> {
    match schema["type"].as_str() {
        Some("object") if schema["additionalProperties"].is_object() => bound(schema, "maxProperties"),
        Some("array") => bound(schema, "maxItems"),
        _ => Some(1),
    }
}

struct RuleChecker {
    errors: Errors,
    total: u64,
    /// The rules behind the total, the most expensive first.
    expensive: Vec<(u64, String)>,
}

impl RuleChecker {
    fn node(&mut self, node: &SchemaNode<'_>) {
        if !super::has_rules(node.schema) {
            return;
        }
        for child in node.children() {
            self.node(&child);
        }
        let rules = node.schema[KEY].as_array().into_iter().flatten();
        for (at, rule) in rules.enumerate() {
            if let (Ok(rule), Some(declared)) = (serde_json::from_value::<Rule>(rule.clone()), &node.declared)
            {
                let findings = rule.check(declared);
                let occurrences = node.cardinality.unwrap_or_else(|| declared.cardinality_max());
                self.rule(&rule, findings, occurrences, &format!("{}.{KEY}[{at}]", node.place), node);
            }
        }
    }

    fn rule(
        &mut self,
        rule: &Rule,
        findings: RuleFindings,
        occurrences: u64,
        place: &str,
        node: &SchemaNode<'_>,
    ) {
        let cost = findings.cost.saturating_mul(occurrences);
        self.observe("estimated rule cost", cost, format!("{place}.rule"));
        if let Some(fault) = findings.fault {
            self.invalid(format!("{place}.rule"), &rule.shown(), &fault);
        }
        if let Some(fault) = findings.message_fault {
            self.invalid(format!("{place}.messageExpression"), &rule.shown(), &fault);
        }
        if let Some(cost) = findings.message_cost {
            self.observe("estimated messageExpression cost", cost, format!("{place}.messageExpression"));
        }
        match (findings.uses_old_self, &node.uncorrelatable, rule.optional_old_self) {
            (true, Some(ancestor), _) => {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {ancestor}"
                );
                self.invalid(format!("{place}.rule"), &Value::from(&*rule.text).to_string(), &detail);
            }
            (false, _, Some(is_optional)) => {
                let detail = "may not be set if oldSelf is not used in rule";
                self.invalid(format!("{place}.optionalOldSelf"), &is_optional.to_string(), detail);
            }
            _ => {}
        }
    }

    fn invalid(&mut self, field: String, value: &str, detail: &str) {
        let body = format!("Invalid value: {value}: {detail}");
        self.errors.push(Error { kind: ErrorType::Invalid, field, body });
    }

    fn forbidden(&mut self, field: String, detail: &str) {
        self.errors.push(Error { kind: ErrorType::Forbidden, field, body: format!("Forbidden: {detail}") });
    }

    fn observe(&mut self, what: &str, cost: u64, field: String) {
        if cost > RULE_COST_MAX {
            self.forbidden(field.clone(), &beyond(what, cost, RULE_COST_MAX));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= EXPENSIVE_MIN {
            self.expensive.push((cost, field));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(EXPENSIVE_NAMED);
        }
    }

    fn sum(&mut self, place: &str) {
        if self.total <= SCHEMA_COST_MAX {
            return;
        }
        for (_, field) in std::mem::take(&mut self.expensive) {
            let detail =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.forbidden(field, detail);
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.forbidden(place.to_owned(), &beyond(what, self.total, SCHEMA_COST_MAX));
    }
}

#[expect(clippy::cast_precision_loss, reason = "the factor is shown with one decimal")]
fn beyond(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, \
         and maxLength where arrays, maps, and strings are declared)"
    )
}
