//! The failure policy of a Job: which Pod failures fail the Job, count against it, or are ignored.
//!
//! **Invariant:** a rule examines exit codes or conditions, never both.

use std::collections::{BTreeSet, HashSet};

use serde_json::json;

use crate::field::Error;
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
/// The same limits as in kube-apiserver.
const RULES_MAX: usize = 20;
const CODES_MAX: usize = 255;
const CONDITIONS_MAX: usize = 20;

/// Validates the failure policy in a Job's spec, if there is one.
pub(in crate::kinds) fn check(spec: &ValueAt<'_>, errors: &mut Errors) {
    let policy = spec.field("podFailurePolicy");
    let rules = policy.field("rules");
    too_many(&rules, RULES_MAX, errors);
    let containers = container_names(spec);
    for rule in rules.items() {
        validate_action(spec, &rule.field("action"), errors);
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.is_set() {
            exit_codes(&containers, &codes, errors);
        }
        pod_conditions(&conditions, errors);
        match (codes.is_set(), conditions.len() > 0) {
            (true, true) => errors.push(Error::invalid_unshown(
                &rule.path,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            )),
            (false, false) => errors.push(Error::invalid_unshown(
                &rule.path,
                "specifying one of OnExitCodes and OnPodConditions is required",
            )),
            _ => {}
        }
    }
}

fn too_many(list: &ValueAt<'_>, max: usize, errors: &mut Errors) {
    if list.len() > max {
        errors.push(Error::too_many(&list.path, list.len(), max));
    }
}

fn validate_action(spec: &ValueAt<'_>, action: &ValueAt<'_>, errors: &mut Errors) {
    if action.text() == "FailIndex" && !spec.field("backoffLimitPerIndex").is_set() {
        action.invalid("requires the backoffLimitPerIndex to be set", errors);
    }
    require_choice(action, &ACTIONS, errors);
}

/// Requires one of these values; if the value is absent, the error lists them in Go's list format.
fn require_choice(place: &ValueAt<'_>, supported: &[&str], errors: &mut Errors) {
    if place.is_zero() {
        let listed = supported.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(" ");
        place.required(&format!("valid values: [{listed}]"), errors);
    } else {
        place.must_be_one_of(supported, errors);
    }
}

fn exit_codes(containers: &HashSet<&str>, codes: &ValueAt<'_>, errors: &mut Errors) {
    let (operator, values) = (codes.field("operator"), codes.field("values"));
    require_choice(&operator, &["In", "NotIn"], errors);
    let name = codes.field("containerName");
    if name.is_set() && !containers.contains(name.text()) {
        name.invalid("must be one of the container or initContainer names in the pod template", errors);
    }
    if values.len() == 0 {
        values.invalid("at least one value is required", errors);
    }
    too_many(&values, CODES_MAX, errors);
    let mut seen = BTreeSet::new();
    let mut is_ordered = true;
    let mut before = i64::MIN;
    for value in values.items() {
        if operator.text() == "In" && value.number() == 0 {
            value.invalid("must not be 0 for the In operator", errors);
        }
        if !seen.insert(value.number()) {
            value.duplicate(errors);
        }
        is_ordered &= before <= value.number();
        before = value.number();
    }
    if !is_ordered {
        values.invalid("must be ordered", errors);
    }
}

fn container_names<'a>(spec: &ValueAt<'a>) -> HashSet<&'a str> {
    let pod = &spec.value["template"]["spec"];
    let lists = ["containers", "initContainers"].into_iter();
    lists.flat_map(|list| read::list_at(pod, list)).map(|one| read::string_at(one, "name")).collect()
}

fn pod_conditions(conditions: &ValueAt<'_>, errors: &mut Errors) {
    too_many(conditions, CONDITIONS_MAX, errors);
    for condition in conditions.items() {
        let kind = condition.field("type");
        kind.must_be_qualified(&kind, errors);
        require_choice(&condition.field("status"), &STATUSES, errors);
    }
}

/// Requires that, with a failure policy, Pods are neither restarted in place nor replaced before they have terminated.
pub(in crate::kinds) fn policies(spec: &ValueAt<'_>, errors: &mut Errors) {
    let replaces = spec.field("podReplacementPolicy");
    if !spec.field("podFailurePolicy").is_set() {
        replaces.must_be_one_of(&["Failed", "TerminatingOrFailed"], errors);
        return;
    }
    replaces.must_be_one_of(&["Failed"], errors);
    let template = spec.field("template");
    let pod = template.field("spec");
    let restart = pod.field("restartPolicy");
    if restart.text() == "OnFailure" {
        let detail = "only \"Never\" is supported when podFailurePolicy is specified";
        errors.push(Error::invalid(&restart.path, &json!(restart.text()), detail));
    }
}
