//! Validates kinds that run Pods from a template: selector and template must match, and the selector must not change.

use serde_json::Value;

use crate::field::Error;
use crate::kinds::validate::{pod, selector};
use crate::resource::value_at::{Errors, ValueAt};

pub(in crate::kinds) const MISMATCH: &str = "`selector` does not match template `labels`";

pub(in crate::kinds) fn counts(spec: &ValueAt<'_>, errors: &mut Errors) {
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        spec.field(name).must_not_be_negative(errors);
    }
}

/// Requires a selector that is not empty and matches the labels of the template.
pub(in crate::kinds) fn selected_template(spec: &ValueAt<'_>, kind: &str, errors: &mut Errors) {
    selected_labels(spec, kind, errors);
    let template = spec.field("template");
    pod::validate_pod_template(&template, errors);
    always_restarts(&template, kind, errors);
}

pub(in crate::kinds) fn selected_labels(spec: &ValueAt<'_>, kind: &str, errors: &mut Errors) {
    let selector = spec.field("selector");
    if selector.is_set() {
        selector::validate_label_selector(&selector, errors);
        if selector::is_empty(&selector) {
            selector.invalid(&format!("empty selector is invalid for {kind}"), errors);
        }
    } else {
        selector.required("", errors);
    }
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    let says_something = !selector.is_set() || !selector::is_empty(&selector);
    if says_something && !selector::matches(selector.value, labels.value) {
        labels.invalid(MISMATCH, errors);
    }
}

pub(in crate::kinds) fn always_restarts(template: &ValueAt<'_>, kind: &str, errors: &mut Errors) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    if restart.text() != "Always" {
        errors.push(Error::not_supported(&restart.path, restart.value, &["Always"]));
    }
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline.is_set() {
        let name = if kind == "daemonset" { "DaemonSet" } else { "ReplicaSet" };
        deadline.forbidden(&format!("activeDeadlineSeconds in {name} is not Supported"), errors);
    }
}

/// Rejects a change to the selector of a workload.
pub(in crate::kinds) fn selector_stays(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    new.field("spec").field("selector").must_stay(&old["spec"]["selector"], errors);
}
