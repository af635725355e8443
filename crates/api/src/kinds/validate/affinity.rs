//! Affinity determines which nodes and which other Pods a Pod should be near or far from.
//!
//! **Invariant:** values in required node terms must be label values, while values in preferred terms need not be, as
//! in kube-apiserver. How `matchLabelKeys` interact with the selector is deliberately not validated.

use serde_json::json;

use super::selector;
use crate::field::Error;
use crate::names;
use crate::resource::value_at::{Errors, ValueAt};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const OPERATOR_TEXT: &str = "not a valid selector operator";
/// The maximum weight of a preference.
const WEIGHT_MAX: i64 = 100;

/// Validates the affinity of a Pod, if there is one.
pub(in crate::kinds) fn check(affinity: &ValueAt<'_>, errors: &mut Errors) {
    let node = affinity.field("nodeAffinity");
    let required = node.field(REQUIRED);
    if required.is_set() {
        node_terms(&required.field("nodeSelectorTerms"), errors);
    }
    for preferred in node.field(PREFERRED).items() {
        validate_weight(&preferred.field("weight"), errors);
        node_term(&preferred.field("preference"), false, errors);
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(name);
        for term in pods.field(REQUIRED).items() {
            pod_term(&term, errors);
        }
        for preferred in pods.field(PREFERRED).items() {
            validate_weight(&preferred.field("weight"), errors);
            pod_term(&preferred.field("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(weight: &ValueAt<'_>, errors: &mut Errors) {
    if !(1..=WEIGHT_MAX).contains(&weight.number()) {
        let shown = json!(weight.number());
        errors.push(Error::invalid(&weight.path, &shown, "must be in the range 1-100"));
    }
}

fn node_terms(terms: &ValueAt<'_>, errors: &mut Errors) {
    if terms.len() == 0 {
        terms.required("must have at least one node selector term", errors);
    }
    for term in terms.items() {
        node_term(&term, true, errors);
    }
}

fn node_term(term: &ValueAt<'_>, are_values_labels: bool, errors: &mut Errors) {
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

fn node_expression(expression: &ValueAt<'_>, errors: &mut Errors) {
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

/// Requires the selected field of a node to be its name: no other field can be selected.
fn node_field(expression: &ValueAt<'_>, errors: &mut Errors) {
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
        for error_text in names::subdomain(value.text()) {
            value.invalid(&error_text, errors);
        }
    }
}

fn pod_term(term: &ValueAt<'_>, errors: &mut Errors) {
    for name in ["labelSelector", "namespaceSelector"] {
        selector::validate_label_selector(&term.field(name), errors);
    }
    for name in term.field("namespaces").items() {
        for error_text in names::label(name.text()) {
            // kube-apiserver omits the index and the last letter.
            errors.push(Error::invalid(&term.field("namespace").path, name.value, &error_text));
        }
    }
    let key = term.field("topologyKey");
    if key.is_zero() {
        key.required("can not be empty", errors);
    }
    key.must_be_qualified(&key, errors);
}
