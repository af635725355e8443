//! Validates access reviews: a review concerns one resource or one path, and has selectors in one form only.

use serde_json::{Value, json};

use crate::field::{Error, Errors, FieldPath};
use crate::names;
use crate::resource::value_at::ValueAt;

/// Validates the spec of an access review, except for its subject.
pub fn access(spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let root = FieldPath::Root;
    let spec = ValueAt { value: spec, path: root.field("spec") };
    let (resource, other) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
    match (resource.is_set(), other.is_set()) {
        (true, true) => {
            // kube-apiserver prints the fields by their Go names.
            let shown = json!({"Path": other.field("path").text(), "Verb": other.field("verb").text()});
            let detail = "cannot be specified in combination with resourceAttributes";
            errors.push(Error::invalid(&other.path, &shown, detail));
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            resource.invalid(detail, &mut errors);
        }
        _ => {}
    }
    for name in ["fieldSelector", "labelSelector"] {
        let selector = resource.field(name);
        if selector.is_set() {
            check_selector(&selector, name, &mut errors);
        }
    }
    errors
}

fn check_selector(selector: &ValueAt<'_>, name: &str, errors: &mut Errors) {
    let (raw, requirements) = (selector.field("rawSelector"), selector.field("requirements"));
    match (raw.is_zero(), requirements.len() == 0) {
        (false, false) => raw.invalid("may not specified at the same time as requirements", errors),
        (true, true) => {
            let detail =
                format!("when {} is specified, requirements or rawSelector is required", selector.path);
            requirements.required(&detail, errors);
        }
        _ => {}
    }
    for requirement in requirements.items() {
        check_requirement(&requirement, name == "labelSelector", errors);
    }
}

/// Validates a selector requirement. Accepts unknown operators, which newer clients may know.
fn check_requirement(requirement: &ValueAt<'_>, is_of_labels: bool, errors: &mut Errors) {
    let (key, values) = (requirement.field("key"), requirement.field("values"));
    if is_of_labels {
        key.must_be_qualified(&key, errors);
        for value in values.items() {
            value.must_pass(names::label_value, errors);
        }
    } else if key.is_zero() {
        key.required("must be specified", errors);
    }
    match requirement.field("operator").text() {
        "In" | "NotIn" if values.len() == 0 => {
            values.required("must be specified when `operator` is 'In' or 'NotIn'", errors);
        }
        "Exists" | "DoesNotExist" if values.len() > 0 => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'", errors);
        }
        _ => {}
    }
}
