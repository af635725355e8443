//! Validates Jobs, and the Jobs that a CronJob starts.

use serde_json::Value;

use crate::field::Error;
use crate::kinds::batch::job::failure_policy;
use crate::kinds::networking::ingress_class::prefixed_path;
use crate::kinds::validate::{pod, selector};
use crate::names;
use crate::resource::value_at::{Errors, ValueAt};

/// The maximum length of the name of an external Job controller.
const MANAGER_BYTES_MAX: usize = 63;

/// The fields of a Job's spec that must not change.
const FIXED: [&str; 6] =
    ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

/// Validates a Job.
pub(in crate::kinds) fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    job_spec(&spec, errors);
    validate_pod_names(object, errors);
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    if !spec.field("selector").is_set() {
        spec.field("selector").required("", errors);
    } else if !selector::matches(spec.field("selector").value, labels.value) {
        labels.invalid("`selector` does not match template `labels`", errors);
    }
    if spec.field("manualSelector").value != &Value::Bool(true) {
        validate_generated_labels(object, &labels, errors);
    }
}

/// Requires the name of an indexed Job to leave room for the largest index: its Pods' host names end with theirs.
fn validate_pod_names(object: &ValueAt<'_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let (name, completions) = (metadata.field("name"), spec.field("completions").number());
    if spec.field("completionMode").text() != "Indexed" || completions < 1 {
        return;
    }
    let last = format!("{}-{}", name.text(), completions - 1);
    if !names::label(&last).is_empty() {
        name.invalid(&format!("will not able to create pod with invalid DNS label: {last}"), errors);
    }
}

/// Requires labels that the server generates to have the generated value, if a client sets them.
fn validate_generated_labels(object: &ValueAt<'_>, labels: &ValueAt<'_>, errors: &mut Errors) {
    let metadata = object.field("metadata");
    let (uid, name) = (metadata.field("uid"), metadata.field("name"));
    for (label, expected) in [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        let found = labels.key(label);
        if expected.is_zero() {
            continue;
        }
        if !found.is_set() {
            found.required(&format!("must be '{}'", expected.text()), errors);
        } else if found.text() != expected.text() {
            found.invalid(&format!("must be '{}'", expected.text()), errors);
        }
    }
}

pub(in crate::kinds) fn job_spec(spec: &ValueAt<'_>, errors: &mut Errors) {
    const COUNTS: [&str; 7] = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for name in COUNTS {
        spec.field(name).must_not_be_negative(errors);
    }
    let mode = spec.field("completionMode");
    mode.must_be_one_of(&["NonIndexed", "Indexed"], errors);
    if mode.text() == "Indexed" {
        if !spec.field("completions").is_set() {
            spec.field("completions").required("when completion mode is Indexed", errors);
        }
    } else {
        for name in ["backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"] {
            let part = spec.field(name);
            if part.is_set() {
                part.invalid("requires indexed completion mode", errors);
            }
        }
    }
    let manager = spec.field("managedBy");
    if manager.is_set() && manager.must_be_set(errors) {
        prefixed_path(&manager, errors);
    }
    if manager.text().len() > MANAGER_BYTES_MAX {
        errors.push(Error::too_long(&manager.path, MANAGER_BYTES_MAX));
    }
    failure_policy::check(spec, errors);
    failure_policy::policies(spec, errors);
    let template = spec.field("template");
    pod::validate_pod_template(&template, errors);
    validate_restart_policy(&template, errors);
}

/// Requires a restart policy with which the Pods of a Job can terminate.
fn validate_restart_policy(template: &ValueAt<'_>, errors: &mut Errors) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    match restart.text() {
        "" | "Always" => restart.required("valid values: \"OnFailure\", \"Never\"", errors),
        "OnFailure" | "Never" => {}
        _ => errors.push(Error::not_supported(&restart.path, restart.value, &["OnFailure", "Never"])),
    }
}

/// Validates a changed Job: scheduling fields of its template may change while it is suspended and has never started;
/// completions may change together with parallelism if it is indexed.
pub(in crate::kinds) fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    let spec = new.field("spec");
    let old_spec = &old["spec"];
    let completions = spec.field("completions");
    let is_elastic = spec.field("completionMode").text() == "Indexed"
        && completions.value == spec.field("parallelism").value
        && old_spec["completions"] == old_spec["parallelism"];
    if !is_elastic {
        completions.must_stay(&old_spec["completions"], errors);
    }
    for name in FIXED {
        spec.field(name).must_stay(&old_spec[name], errors);
    }
    let may_steer = old_spec["suspend"] == Value::Bool(true) && old["status"]["startTime"].is_null();
    let template = spec.field("template");
    if !may_steer {
        template.must_stay(&old_spec["template"], errors);
    } else if without_scheduling_fields(template.value) != without_scheduling_fields(&old_spec["template"]) {
        template.invalid("field is immutable", errors);
    }
}

/// Returns a template without the fields that may change while the Job is suspended.
fn without_scheduling_fields(template: &Value) -> Value {
    let mut template = template.clone();
    for part in ["labels", "annotations"] {
        if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove(part);
        }
    }
    let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) else { return template };
    for part in ["affinity", "nodeSelector", "tolerations", "schedulingGates"] {
        spec.remove(part);
    }
    for list in ["containers", "initContainers"] {
        for one in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(one) = one.as_object_mut() {
                one.remove("resources");
            }
        }
    }
    template
}
