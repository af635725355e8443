//! Job: runs Pods until enough of them succeed.

pub(in crate::kinds) mod failure_policy;
pub(in crate::kinds) mod status;
pub(in crate::kinds) mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::defaults;
use crate::kinds::subresource::STATUS;
use crate::object::fill::{
    JsonObject, object_mut, object_or_insert, objects_mut, set_if_absent, set_if_zero,
};
use crate::object::read;
use crate::printing::{Column, age, container_names_and_images, selectors};
use crate::resource::declaration::{BuiltInKind, PodTemplate};
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::WORKLOAD;

const DELETE_WARNING: &str = "Pods of a Job stay by default when it is deleted: say propagationPolicy=Background to delete \
    them, or propagationPolicy=Orphan to delete the Job alone without this warning";

const BACKOFF_LIMIT: u32 = 6;

const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// The printed states of a finished Job, chosen by the first of these conditions that is true.
const STATES: [(&str, &str); 2] = [("Complete", "Complete"), ("Failed", "Failed")];

/// The printed states of a Job that is neither finished nor being deleted.
const LATER_STATES: [&str; 3] = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];

/// Runs Pods until enough of them succeed.
pub(crate) static JOB: BuiltInKind = BuiltInKind {
    categories: &["all"],
    subresources: &[STATUS],
    strategy: WORKLOAD.orphaning(),
    defaults: Some(defaults),
    prepare_create: Some(|_, fields, with| {
        job_created(fields, with.uid);
        Ok(())
    }),
    validate: Some(validation::validate),
    validate_update: Some(validation::validate_update),
    validate_status: Some(status::validate_status),
    pod_template: Some(PodTemplate::OF_WORKLOAD),
    delete_warning: Some(DELETE_WARNING),
    columns: &[
        Column::NAME,
        Column::text("Status"),
        Column::text("Completions"),
        Column::text("Duration"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells),
    selectable: SelectableFields {
        refusal: |name| format!("field label {name:?} not supported for Job"),
        ..SelectableFields::fields(&[("status.successful", AbsentValue::Zero)])
    },
    ..BuiltInKind::namespaced("batch", "v1", "jobs", "Job")
};

/// Fills in the defaults of a Job: its labels come from its template.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = defaults::workloads::spec_of(object) else { return };
    defaults::workloads::default_pod_template(spec);
    if is_absent(spec, "completions") && is_absent(spec, "parallelism") {
        spec.insert("completions".into(), json!(1));
    }
    set_if_absent(spec, "parallelism", 1);
    let backoff =
        if is_absent(spec, "backoffLimitPerIndex") { json!(BACKOFF_LIMIT) } else { json!(i32::MAX) };
    set_if_absent(spec, "backoffLimit", backoff);
    set_if_absent(spec, "completionMode", "NonIndexed");
    set_if_absent(spec, "suspend", false);
    set_if_absent(spec, "manualSelector", false);
    let replacement = if is_absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    set_if_absent(spec, "podReplacementPolicy", replacement);
    failure_policy(spec);
    let labels = defaults::workloads::template_labels(spec);
    if let (Some(labels), Some(metadata)) = (labels, object_or_insert(object, "metadata")) {
        set_if_zero(metadata, "labels", labels);
    }
}

fn is_absent(fields: &JsonObject, name: &str) -> bool {
    fields.get(name).is_none_or(Value::is_null)
}

pub(in crate::kinds) fn failure_policy(spec: &mut JsonObject) {
    let Some(policy) = object_mut(spec, "podFailurePolicy") else { return };
    for rule in objects_mut(policy, "rules") {
        for pattern in objects_mut(rule, "onPodConditions") {
            set_if_zero(pattern, "status", "True");
        }
    }
}

/// Makes a Job select its Pods by its own uid, unless the client provides a selector.
fn job_created(job: &mut JsonObject, uid: &str) {
    let name = job.get("metadata").and_then(|metadata| metadata.get("name")).cloned().unwrap_or_default();
    let Some(spec) = object_or_insert(job, "spec") else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let labels = object_or_insert(spec, "template")
        .and_then(|template| object_or_insert(template, "metadata"))
        .and_then(|of| object_or_insert(of, "labels"));
    let Some(labels) = labels else { return };
    for label in NAME_LABELS {
        labels.entry(label).or_insert_with(|| name.clone());
    }
    for label in UID_LABELS {
        labels.entry(label).or_insert_with(|| uid.into());
    }
    let labels = Value::Object(labels.clone());
    if let Some(wanted) =
        object_or_insert(spec, "selector").and_then(|selector| object_or_insert(selector, "matchLabels"))
    {
        wanted.entry(UID_LABELS[1]).or_insert_with(|| uid.into());
    }
    // kube-apiserver defaults again when it reads an object back; only then are the labels of the template present.
    if let Some(metadata) = object_or_insert(job, "metadata") {
        set_if_zero(metadata, "labels", labels);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = container_names_and_images(object, "spec.template.spec.containers");
    vec![
        read::name(object).into(),
        state(object).into(),
        completions(object).into(),
        duration(object, now).into(),
        age::age_of_object(object, now).into(),
        names,
        images,
        selectors::selector(object, "spec.selector").into(),
    ]
}

fn state(object: &Value) -> &'static str {
    if let Some((_, state)) = STATES.iter().find(|(condition, _)| read::has_true_condition(object, condition))
    {
        return state;
    }
    if read::is_deleted(object) {
        return "Terminating";
    }
    LATER_STATES
        .iter()
        .find(|condition| read::has_true_condition(object, condition))
        .copied()
        .unwrap_or("Running")
}

fn completions(object: &Value) -> String {
    let succeeded = read::integer_at(object, "status.succeeded");
    match (
        read::value_at(object, "spec.completions").and_then(Value::as_i64),
        read::integer_at(object, "spec.parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(object: &Value, now: Timestamp) -> String {
    let Some(start) = read::time_at(object, "status.startTime") else { return String::new() };
    age::format_duration(read::time_at(object, "status.completionTime").unwrap_or(now).duration_since(start))
}
