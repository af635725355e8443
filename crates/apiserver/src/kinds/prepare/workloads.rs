//! New and changed workloads: the selector of Jobs and the template counter of DaemonSets.

use serde_json::{Value, json};

use crate::kinds::fill::{Fields, at, fill_zero, made};

/// Where DaemonSets count changes of their template, since the field of old is no longer served.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// A Job selects its Pods by its own uid, unless told to use a selector of the client's.
pub(in crate::kinds) fn job_created(job: &mut Fields, uid: &str) {
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

/// The first template of a DaemonSet.
pub(in crate::kinds) fn daemon_set_created(set: &mut Fields) {
    count(set, 1);
}

/// A changed DaemonSet counts changes of its template.
pub(in crate::kinds) fn daemon_set_updated(set: &mut Fields, old: &Value) {
    let before = at(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
    let before = before.as_str().and_then(|text| text.parse::<i64>().ok()).unwrap_or(1);
    let template = set.get("spec").map_or(&Value::Null, |spec| at(spec, &["template"]));
    let changed = template != at(old, &["spec", "template"]);
    count(set, before.saturating_add(i64::from(changed)));
}

fn count(set: &mut Fields, generation: i64) {
    if let Some(notes) = made(set, "metadata").and_then(|metadata| made(metadata, "annotations")) {
        notes.insert(TEMPLATE_GENERATION.into(), json!(generation.to_string()));
    }
}
