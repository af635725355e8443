//! Jobs and CronJobs: Pods that must be able to end, labels the server makes, schedules that parse.

use serde_json::{Value, json};

use super::at::{At, Errors};
use super::ingress_class::prefixed_path;
use super::schedule;
use super::{failure_policy, pod, selector};
use crate::field::Error;

/// A CronJob leaves room for the eleven characters its Jobs add to the name.
const CRON_JOB_NAME_MAX: usize = 52;
/// IANA areas and the zones without one. Zones inside an area are not checked: the database moves several times a
/// year and is not part of this server.
const TIME_ZONE_AREAS: [&str; 17] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "Etc",
    "Europe",
    "Indian",
    "Mexico",
    "Pacific",
    "US",
    "SystemV",
];
const SINGLE_TIME_ZONES: [&str; 40] = [
    "UTC",
    "UCT",
    "GMT",
    "GMT0",
    "GMT+0",
    "GMT-0",
    "Greenwich",
    "Universal",
    "Zulu",
    "CET",
    "EET",
    "MET",
    "WET",
    "EST",
    "MST",
    "HST",
    "EST5EDT",
    "CST6CDT",
    "MST7MDT",
    "PST8PDT",
    "Cuba",
    "Egypt",
    "Eire",
    "GB",
    "GB-Eire",
    "Hongkong",
    "Iceland",
    "Iran",
    "Israel",
    "Jamaica",
    "Japan",
    "Kwajalein",
    "Libya",
    "NZ",
    "NZ-CHAT",
    "Navajo",
    "PRC",
    "Poland",
    "Portugal",
    "ROC",
];

/// The longest name of whoever runs a Job instead of the usual controller.
const MANAGER_BYTES_MAX: usize = 63;

/// What of a Job's spec never changes.
const FIXED: [&str; 6] =
    ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"];

/// A Job.
pub(in crate::kinds) fn job(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    job_spec(&spec, errors);
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let labels = metadata.field("labels");
    if !spec.field("selector").is_set() {
        spec.field("selector").required("", errors);
    } else if !selector::matches(spec.field("selector").value, labels.value) {
        labels.invalid("`selector` does not match template `labels`", errors);
    }
    if spec.field("manualSelector").value != &Value::Bool(true) {
        generated(object, &labels, errors);
    }
}

/// Labels the server makes may be set by clients only to the value the server would make.
fn generated(object: &At<'_>, labels: &At<'_>, errors: &mut Errors) {
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

fn job_spec(spec: &At<'_>, errors: &mut Errors) {
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
    pod::template(&template, errors);
    ends(&template, errors);
}

/// The Pods of a Job must be able to end.
fn ends(template: &At<'_>, errors: &mut Errors) {
    let spec = template.field("spec");
    let restart = spec.field("restartPolicy");
    match restart.text() {
        "" | "Always" => restart.required("valid values: \"OnFailure\", \"Never\"", errors),
        "OnFailure" | "Never" => {}
        _ => errors.push(Error::not_supported(&restart.path, restart.value, &["OnFailure", "Never"])),
    }
}

/// A changed Job: while it is suspended and never started its template may still be steered; completions may change
/// together with parallelism when it is indexed.
pub(in crate::kinds) fn job_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
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
    } else if steered(template.value) != steered(&old_spec["template"]) {
        template.invalid("field is immutable", errors);
    }
}

/// A template without what may change while the Job is suspended.
fn steered(template: &Value) -> Value {
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

/// A CronJob.
pub(in crate::kinds) fn cron_job(object: &At<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let when = spec.field("schedule");
    if when.must_be_set(errors) {
        if let Err(why) = schedule::check(when.text()) {
            when.invalid(&why, errors);
        }
        if when.text().contains("TZ") {
            when.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead", errors);
        }
    }
    time_zone(&spec.field("timeZone"), errors);
    for name in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.field(name).must_not_be_negative(errors);
    }
    spec.field("concurrencyPolicy").must_be_one_of(&["Allow", "Forbid", "Replace"], errors);
    let job = spec.field("jobTemplate");
    let job = job.field("spec");
    job_spec(&job, errors);
    if job.field("manualSelector").value == &Value::Bool(true) {
        errors.push(Error::not_supported(&job.field("manualSelector").path, &json!(true), &["nil", "false"]));
    }
    if job.field("selector").is_set() {
        job.field("selector").invalid("`selector` will be auto-generated", errors);
    }
}

/// A new CronJob.
pub(in crate::kinds) fn cron_job_create(object: &At<'_>, errors: &mut Errors) {
    cron_job(object, errors);
    let metadata = object.field("metadata");
    if metadata.field("name").text().len() > CRON_JOB_NAME_MAX {
        metadata.field("name").invalid("must be no more than 52 characters", errors);
    }
}

fn time_zone(zone: &At<'_>, errors: &mut Errors) {
    if !zone.is_set() {
        return;
    }
    let name = zone.text();
    if name.is_empty() {
        zone.invalid("timeZone must be nil or non-empty string", errors);
    } else if name.eq_ignore_ascii_case("local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        zone.invalid(detail, errors);
    } else if !is_time_zone(name) {
        zone.invalid(&format!("unknown time zone {name}"), errors);
    }
}

fn is_time_zone(name: &str) -> bool {
    match name.split_once('/') {
        None => {
            SINGLE_TIME_ZONES.contains(&name) || name == "Singapore" || name == "Turkey" || name == "W-SU"
        }
        Some((area, place)) => {
            let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte);
            TIME_ZONE_AREAS.contains(&area) && !place.is_empty() && place.bytes().all(letters)
        }
    }
}
