//! Validates Pods. Checks that also apply to templates are in `kinds::validate::pod`.

use std::collections::HashSet;

use serde_json::Value;

use crate::field::Error;
use crate::kinds::core::pod::preparation::quality_of_service;
use crate::kinds::validate;
use crate::kinds::validate::container;
use crate::object::fill::{first_by_name, is_same};
use crate::object::read;
use crate::resource::value_at::{Errors, ValueAt};

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

const TOKEN_TEXT: &str = "must not be specified when serviceAccountName is not set";

/// Validates a Pod, new or changed.
fn validate_pod(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    validate::pod::pod_spec(&spec, errors);
    if spec.field("serviceAccountName").is_zero() {
        for volume in spec.field("volumes").items() {
            for source in volume.field("projected").field("sources").items() {
                let token = source.field("serviceAccountToken");
                if token.is_set() {
                    token.forbidden(TOKEN_TEXT, errors);
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for one in spec.field(list).items() {
            check_image(&one, errors);
        }
    }
}

/// Validates the image of a Pod's container; templates may have an image that has yet to be replaced.
fn check_image(container: &ValueAt<'_>, errors: &mut Errors) {
    let image = container.field("image");
    if image.text().trim() != image.text() {
        image.invalid("must not have leading or trailing whitespace", errors);
    }
}

/// Validates a new Pod.
pub(in crate::kinds) fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    validate_pod(object, errors);
    let spec = object.field("spec");
    if spec.field("ephemeralContainers").len() > 0 {
        spec.field("ephemeralContainers").forbidden("cannot be set on create", errors);
    }
    if !spec.field("nodeName").is_zero() && spec.field("schedulingGates").len() > 0 {
        let detail = "cannot be set until all schedulingGates have been cleared";
        spec.field("nodeName").forbidden(detail, errors);
    }
}

/// Validates a changed Pod: only images may change, and a few other fields in one direction.
pub(in crate::kinds) fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    validate_pod(new, errors);
    let (spec, old) = (new.field("spec"), &old["spec"]);
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.len() != read::list_at(old, list).len() {
            containers.forbidden("pod updates may not add or remove containers", errors);
            return;
        }
    }
    deadline_update(&spec, old, errors);
    tolerations_update(&spec, old, errors);
    gates_update(&spec, old, errors);
    if spec.value != old
        && !is_same(&with_mutable_fields_of(spec.value, old), &with_mutable_fields_of(old, old))
    {
        spec.forbidden(CHANGEABLE, errors);
    }
}

/// Requires a resized Pod to keep its quality of service class, which determines eviction.
pub(in crate::kinds) fn resized(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    validate_pod(new, errors);
    let spec = new.field("spec");
    if quality_of_service(spec.value) != quality_of_service(&old["spec"]) {
        let class = &old["status"]["qosClass"];
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.push(Error::invalid(&spec.path, class, detail));
    }
}

fn deadline_update(spec: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let deadline = spec.field("activeDeadlineSeconds");
    match (deadline.value.as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(now), Some(before)) if before < now => {
            deadline.invalid("must be less than or equal to previous value", errors);
        }
        (None, Some(_)) => deadline.invalid("must not update from a positive integer to nil value", errors),
        _ => {}
    }
}

fn tolerations_update(spec: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let list = spec.field("tolerations");
    let unless_seconds = |one: &Value| {
        let mut one = one.clone();
        if let Some(fields) = one.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        one
    };
    let now: HashSet<Value> = list.items().map(|one| unless_seconds(one.value)).collect();
    if read::list_at(old, "tolerations").iter().any(|before| !now.contains(&unless_seconds(before))) {
        list.forbidden("existing toleration can not be modified except its tolerationSeconds", errors);
    }
}

fn gates_update(spec: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let before: HashSet<&Value> = read::list_at(old, "schedulingGates").iter().collect();
    for gate in spec.field("schedulingGates").items().filter(|gate| !before.contains(gate.value)) {
        let name = gate.field("name");
        let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", name.text());
        name.forbidden(&detail, errors);
    }
}

/// Requires that ephemeral containers are only added, never changed or removed.
pub(in crate::kinds) fn ephemeral_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let spec = new.field("spec");
    let list = spec.field("ephemeralContainers");
    let before = read::list_at(&old["spec"], "ephemeralContainers");
    let named = first_by_name(read::list_at(spec.value, "ephemeralContainers"));
    for one in before {
        match named.get(read::string_at(one, "name")) {
            None => list.forbidden(
                &format!("existing ephemeral containers {} may not be removed\n", one["name"]),
                errors,
            ),
            Some(now) if !is_same(now, one) => {
                let detail = format!("existing ephemeral containers {} may not be changed\n", one["name"]);
                list.forbidden(&detail, errors);
            }
            Some(_) => {}
        }
    }
    let volumes =
        read::list_at(spec.value, "volumes").iter().map(|volume| read::string_at(volume, "name")).collect();
    let mut pod = container::PodContext::of(&spec, volumes);
    pod.names =
        read::list_at(spec.value, "containers").iter().map(|one| read::string_at(one, "name")).collect();
    for one in list.items() {
        check_image(&one, errors);
        container::ephemeral(&ValueAt { value: one.value, path: one.path }, &mut pod, errors);
    }
}

/// Returns a spec in which everything that may change is the same as in `old`.
fn with_mutable_fields_of(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(fields) = spec.as_object_mut() else { return spec };
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if !read::list_at(old, "schedulingGates").is_empty() {
        // Scheduling constraints of an unscheduled Pod may still change.
        free.extend(["nodeSelector", "affinity"]);
    }
    if old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        free.push("terminationGracePeriodSeconds");
    }
    for name in free {
        fields.remove(name);
    }
    for list in ["containers", "initContainers"] {
        for one in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(one) = one.as_object_mut() {
                one.remove("image");
            }
        }
    }
    fields.retain(|_, value| !crate::object::fill::is_zero(Some(value)));
    spec
}
