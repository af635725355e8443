//! Affinity: which nodes and which other Pods a Pod wants to be near to or far from.
//!
//! **Invariant:** values of required node terms are label values, those of preferred ones need not be, as in the real
//! server. How `matchLabelKeys` meet the selector is deliberately not judged.

use serde_json::json;

use super::at::{At, Errors};
use super::selector;
use crate::field::Error;
use crate::kinds::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const OPERATOR_TEXT: &str = "not a valid selector operator";
/// The most a preference can weigh.
const WEIGHT_MAX: i64 = 100;

/// The affinity of a Pod; an absent one is fine.
pub(in crate::kinds) fn check(affinity: &At<'_>, errors: &mut Errors) {
    let node = affinity.field("nodeAffinity");
    let required = node.field(REQUIRED);
    if required.is_set() {
        node_terms(&required.field("nodeSelectorTerms"), errors);
    }
    for preferred in node.field(PREFERRED).items() {
        weight(&preferred.field("weight"), errors);
        node_term(&preferred.field("preference"), false, errors);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(name);
        for term in pods.field(REQUIRED).items() {
            pod_term(&term, errors);
        }
        for preferred in pods.field(PREFERRED).items() {
            weight(&preferred.field("weight"), errors);
            pod_term(&preferred.field("podAffinityTerm"), errors);
        }
    }
}

fn weight(weight: &At<'_>, errors: &mut Errors) {
    if !(1..=WEIGHT_MAX).contains(&weight.number()) {
        let shown = json!(weight.number());
        errors.push(Error::invalid(&weight.path, &shown, "must be in the range 1-100"));
    }
}

fn node_terms(terms: &At<'_>, errors: &mut Errors) {
    if terms.len() == 0 {
        terms.required("must have at least one node selector term", errors);
    }
    for term in terms.items() {
        node_term(&term, true, errors);
    }
}

fn node_term(term: &At<'_>, are_values_labels: bool, errors: &mut Errors) {
    for expression in term.field("matchExpressions").items() {
        node_expression(&expression, errors);
        for value in expression.field("values").items().filter(|_| are_values_labels) {
            value.must_pass(names::label_value, errors);
        }
    }
    for expression in term.field("matchFields").items() {
        node_field(&expression, errors);
    }
}

fn node_expression(expression: &At<'_>, errors: &mut Errors) {
    let (key, operator) = (expression.field("key"), expression.field("operator"));
    let values = expression.field("values");
    match (operator.text(), values.len()) {
        ("In" | "NotIn", 0) => {
            values.required("must be specified when `operator` is 'In' or 'NotIn'", errors);
        }
        ("Exists" | "DoesNotExist", 1..) => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'", errors);
        }
        ("Gt" | "Lt", 0 | 2..) => {
            values.required("must be specified single value when `operator` is 'Lt' or 'Gt'", errors);
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        (other, _) => errors.push(Error::invalid(&operator.path, &json!(other), OPERATOR_TEXT)),
    }
    key.must_be_qualified(&key, errors);
}

/// Of the fields of nodes only the name can be asked for.
fn node_field(expression: &At<'_>, errors: &mut Errors) {
    let (key, operator) = (expression.field("key"), expression.field("operator"));
    let values = expression.field("values");
    if !matches!(operator.text(), "In" | "NotIn") {
        errors.push(Error::invalid(&operator.path, &json!(operator.text()), OPERATOR_TEXT));
    } else if values.len() != 1 {
        let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
        values.required(detail, errors);
    }
    if key.text() != "metadata.name" {
        errors.push(Error::invalid(&key.path, &json!(key.text()), "not a valid field selector key"));
        return;
    }
    for value in values.items() {
        for complaint in names::subdomain(value.text()) {
            value.invalid(&complaint, errors);
        }
    }
}

fn pod_term(term: &At<'_>, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        selector::check(&term.field(name), errors);
    }
    for name in term.field("namespaces").items() {
        for complaint in names::label(name.text()) {
            // The real server leaves out which one, and the last letter.
            errors.push(Error::invalid(&term.field("namespace").path, name.value, &complaint));
        }
    }
    let key = term.field("topologyKey");
    if key.is_zero() {
        key.required("can not be empty", errors);
    }
    key.must_be_qualified(&key, errors);
}
