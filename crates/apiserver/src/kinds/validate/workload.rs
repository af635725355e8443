//! The kinds that run Pods from a template: selector and template must fit, and the selector stays.

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::{pod, selector};
use crate::field::Error;
use crate::kinds::fill::is_zero;

const MISMATCH: &str = "`selector` does not match template `labels`";
const STATEFUL_SET_FIELDS: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const STATEFUL_SET_FREE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

fn counts(spec: &At<'_>, errors: &mut Errors) {
    for name in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        spec.field(name).must_not_be_negative(errors);
    }
}

/// The selector must be there, say something, and match the labels of the template.
fn selected_template(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    selected_labels(spec, kind, errors);
    let template = spec.field("template");
    pod::template(&template, errors);
    always_restarts(&template, kind, errors);
}

fn selected_labels(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let selector = spec.field("selector");
    if selector.is_set() {
        selector::check(&selector, errors);
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

fn always_restarts(template: &At<'_>, kind: &str, errors: &mut Errors) {
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

/// A Deployment.
pub(in crate::kinds) fn deployment(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    counts(&spec, errors);
    selected_template(&spec, "deployment", errors);
    deployment_strategy(&spec.field("strategy"), errors);
    let deadline = spec.field("progressDeadlineSeconds");
    if deadline.is_set() && deadline.number() <= spec.field("minReadySeconds").number() {
        deadline.invalid("must be greater than minReadySeconds", errors);
    }
}

fn deployment_strategy(strategy: &At<'_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").text() {
        "Recreate" => {
            if rolling.is_set() {
                rolling.forbidden("may not be specified when strategy `type` is 'Recreate'", errors);
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
            unavailable.must_be_amount_or_percent(errors);
            surge.must_be_amount_or_percent(errors);
            if unavailable.amount_or_percent() == 0 && surge.amount_or_percent() == 0 {
                unavailable.invalid("may not be 0 when `maxSurge` is 0", errors);
            }
            unavailable.must_not_exceed_all(errors);
        }
        _ => {
            errors.push(Error::not_supported(&strategy.path, strategy.value, &["Recreate", "RollingUpdate"]));
        }
    }
}

/// The selector of a workload stays.
pub(in crate::kinds) fn selector_stays(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("spec").field("selector").must_stay(&old["spec"]["selector"], errors);
}

/// A ReplicaSet.
pub(in crate::kinds) fn replica_set(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    counts(&spec, errors);
    selected_template(&spec, "deployment", errors);
}

/// A ReplicationController: its selector is a plain map of labels.
pub(in crate::kinds) fn replication_controller(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    counts(&spec, errors);
    let selector = spec.field("selector");
    selector.must_be_set(errors);
    let template = spec.field("template");
    if !template.is_set() {
        template.required("", errors);
        return;
    }
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    if !selector::matches(&json!({"matchLabels": selector.value}), labels.value) {
        labels.invalid(MISMATCH, errors);
    }
    pod::template(&template, errors);
    always_restarts(&template, "replicationcontroller", errors);
}

/// A PodTemplate.
pub(in crate::kinds) fn pod_template(object: &At<'_>, errors: &mut Errors) {
    pod::template(&object.field("template"), errors);
}

/// A DaemonSet.
pub(in crate::kinds) fn daemon_set(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    counts(&spec, errors);
    selected_template(&spec, "daemonset", errors);
    let strategy = spec.field("updateStrategy");
    strategy.field("type").must_be_one_of(&["RollingUpdate", "OnDelete"], errors);
    let rolling = strategy.field("rollingUpdate");
    if strategy.field("type").text() != "RollingUpdate" || !rolling.is_set() {
        return;
    }
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    for amount in [&unavailable, &surge] {
        amount.must_be_amount_or_percent(errors);
        amount.must_not_exceed_all(errors);
    }
    match (unavailable.amount_or_percent() != 0, surge.amount_or_percent() != 0) {
        (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero", errors),
        (false, false) => unavailable.required("cannot be 0 when maxSurge is 0", errors),
        _ => {}
    }
}

/// A StatefulSet.
pub(in crate::kinds) fn stateful_set(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    counts(&spec, errors);
    spec.field("podManagementPolicy").must_be_one_of(&["OrderedReady", "Parallel"], errors);
    let strategy = spec.field("updateStrategy");
    let kind = strategy.field("type");
    if kind.must_be_set(errors) {
        kind.must_be_one_of(&["RollingUpdate", "OnDelete"], errors);
    }
    if kind.text() == "OnDelete" && strategy.field("rollingUpdate").is_set() {
        let detail = "only allowed for updateStrategy 'RollingUpdate'";
        strategy.field("rollingUpdate").invalid(detail, errors);
    }
    strategy.field("rollingUpdate").field("partition").must_not_be_negative(errors);
    spec.field("ordinals").field("start").must_not_be_negative(errors);
    for when in ["whenDeleted", "whenScaled"] {
        let policy = spec.field("persistentVolumeClaimRetentionPolicy");
        policy.field(when).must_be_one_of(&["Retain", "Delete"], errors);
    }
    selected_labels(&spec, "statefulset", errors);
    let template = spec.field("template");
    // Not the Pod itself, as in Kubernetes: its volumes come from the claim templates, one Pod at a time.
    pod::template_metadata(&template, errors);
    always_restarts(&template, "statefulset", errors);
}

/// A changed StatefulSet: few fields may change.
pub(in crate::kinds) fn stateful_set_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    let spec = new.field("spec");
    let old = &old["spec"];
    let fixed = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        let fixed = fields
            .filter(|(name, value)| !STATEFUL_SET_FREE.contains(&name.as_str()) && !is_zero(Some(value)));
        fixed.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    if fixed(spec.value) != fixed(old) {
        spec.forbidden(STATEFUL_SET_FIELDS, errors);
    }
}

/// A ControllerRevision.
pub(in crate::kinds) fn revision(object: &At<'_>, errors: &mut Errors) {
    object.field("revision").must_not_be_negative(errors);
}

/// A new ControllerRevision: it keeps some object.
pub(in crate::kinds) fn revision_create(object: &At<'_>, errors: &mut Errors) {
    revision(object, errors);
    let data = object.field("data");
    if !data.is_set() {
        data.required("data is mandatory", errors);
    } else if !data.value.is_object() {
        data.required("data must be a valid JSON object", errors);
    }
}

/// A changed ControllerRevision: what it keeps stays.
pub(in crate::kinds) fn revision_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    new.field("data").must_stay(&old["data"], errors);
}
