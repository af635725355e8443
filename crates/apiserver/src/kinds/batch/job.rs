//! Job: runs Pods until enough of them succeed.

pub(in crate::kinds) mod failure_policy;
pub(in crate::kinds) mod status;
pub(in crate::kinds) mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::declaration::{Kind, STATUS};
use crate::kinds::defaults;
use crate::kinds::fill::{Fields, each, fill, fill_zero, inner, made};
use crate::kinds::printing::{Column, age, containers, read, selectors};
use crate::kinds::selectable::{Absent, Selectable};
use crate::kinds::strategy::WORKLOAD;
use crate::kinds::warnings::PodTemplate;

const DELETE_WARNING: &str = "Pods of a Job stay by default when it is deleted: say propagationPolicy=Background to delete \
    them, or propagationPolicy=Orphan to delete the Job alone without this warning";

const BACKOFF_LIMIT: u32 = 6;

const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];

const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// What a Job is, by the first condition of these that holds.
const STATES: [(&str, &str); 2] = [("Complete", "Complete"), ("Failed", "Failed")];

/// What a Job that is neither finished nor being deleted is.
const LATER_STATES: [&str; 3] = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];

/// Runs Pods until enough of them succeed.
pub(crate) static JOB: Kind = Kind {
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
    selectable: Selectable {
        refusal: |name| format!("field label {name:?} not supported for Job"),
        ..Selectable::fields(&[("status.successful", Absent::Zero)])
    },
    ..Kind::namespaced("batch", "v1", "jobs", "Job")
};

/// A Job: its labels come from its template.
fn defaults(object: &mut Fields) {
    let Some(spec) = defaults::workloads::spec(object) else { return };
    defaults::workloads::template(spec);
    if is_absent(spec, "completions") && is_absent(spec, "parallelism") {
        spec.insert("completions".into(), json!(1));
    }
    fill(spec, "parallelism", 1);
    let backoff =
        if is_absent(spec, "backoffLimitPerIndex") { json!(BACKOFF_LIMIT) } else { json!(i32::MAX) };
    fill(spec, "backoffLimit", backoff);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let replacement = if is_absent(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
    fill(spec, "podReplacementPolicy", replacement);
    failure_policy(spec);
    let labels = defaults::workloads::template_labels(spec);
    if let (Some(labels), Some(metadata)) = (labels, made(object, "metadata")) {
        fill_zero(metadata, "labels", labels);
    }
}

fn is_absent(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_none_or(Value::is_null)
}

pub(in crate::kinds) fn failure_policy(spec: &mut Fields) {
    let Some(policy) = inner(spec, "podFailurePolicy") else { return };
    for rule in each(policy, "rules") {
        for pattern in each(rule, "onPodConditions") {
            fill_zero(pattern, "status", "True");
        }
    }
}

/// A Job selects its Pods by its own uid, unless told to use a selector of the client's.
fn job_created(job: &mut Fields, uid: &str) {
    let name = job.get("metadata").and_then(|metadata| metadata.get("name")).cloned().unwrap_or_default();
    let Some(spec) = made(job, "spec") else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    let labels = made(spec, "template")
        .and_then(|template| made(template, "metadata"))
        .and_then(|of| made(of, "labels"));
    let Some(labels) = labels else { return };
    for label in NAME_LABELS {
        labels.entry(label).or_insert_with(|| name.clone());
    }
    for label in UID_LABELS {
        labels.entry(label).or_insert_with(|| uid.into());
    }
    let labels = Value::Object(labels.clone());
    if let Some(wanted) = made(spec, "selector").and_then(|selector| made(selector, "matchLabels")) {
        wanted.entry(UID_LABELS[1]).or_insert_with(|| uid.into());
    }
    // Real servers default again when they read an object back; only then the labels of the template are there.
    if let Some(metadata) = made(job, "metadata") {
        fill_zero(metadata, "labels", labels);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, "spec.template.spec.containers");
    vec![
        read::name(object).into(),
        state(object).into(),
        completions(object).into(),
        duration(object, now).into(),
        age::of(object, now).into(),
        names,
        images,
        selectors::selector(object, "spec.selector").into(),
    ]
}

fn state(object: &Value) -> &'static str {
    if let Some((_, state)) = STATES.iter().find(|(condition, _)| read::holds(object, condition)) {
        return state;
    }
    if read::is_deleted(object) {
        return "Terminating";
    }
    LATER_STATES.iter().find(|condition| read::holds(object, condition)).copied().unwrap_or("Running")
}

fn completions(object: &Value) -> String {
    let succeeded = read::number(object, "status.succeeded");
    match (
        read::at(object, "spec.completions").and_then(Value::as_i64),
        read::number(object, "spec.parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(object: &Value, now: Timestamp) -> String {
    let Some(start) = read::time(object, "status.startTime") else { return String::new() };
    age::human(read::time(object, "status.completionTime").unwrap_or(now).duration_since(start))
}
