//! CronJob: starts Jobs on a schedule.

pub(in crate::kinds) mod schedule_check;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::batch::job;
use crate::kinds::batch::job::validation;
use crate::kinds::defaults;
use crate::kinds::subresource::STATUS;
use crate::object::fill::{JsonObject, object_or_insert, set_if_absent, set_if_zero};
use crate::object::read;
use crate::printing::{Column, age, container_names_and_images, selectors};
use crate::resource::declaration::{BuiltInKind, PodTemplate};
use crate::resource::strategy::WORKLOAD;
use crate::resource::value_at::{Errors, ValueAt};

/// The maximum length of a CronJob's name: its Jobs add eleven characters.
const CRON_JOB_NAME_MAX: usize = 52;

/// The IANA areas, and the zones without an area. Zones inside an area are not checked: the database changes several
/// times a year and is not part of this server.
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

/// Starts Jobs on a schedule.
pub(crate) static CRON_JOB: BuiltInKind = BuiltInKind {
    short_names: &["cj"],
    categories: &["all"],
    subresources: &[STATUS],
    old_versions: &["v1beta1"],
    strategy: WORKLOAD,
    defaults: Some(defaults),
    validate: Some(validate),
    validate_create: Some(validate_create),
    pod_template: Some(PodTemplate {
        path: "spec.jobTemplate.spec.template",
        name_is_used_in: "Pod names and hostnames",
        is_checked_on_update: true,
    }),
    columns: &[
        Column::NAME,
        Column::text("Schedule"),
        Column::text("Timezone"),
        Column::truth("Suspend"),
        Column::number("Active"),
        Column::text("Last Schedule"),
        Column::text("Age"),
        Column::text("Containers").wide(),
        Column::text("Images").wide(),
        Column::text("Selector").wide(),
    ],
    cells: Some(cells),
    ..BuiltInKind::namespaced("batch", "v1", "cronjobs", "CronJob")
};

/// Validates a CronJob.
fn validate(object: &ValueAt<'_>, errors: &mut Errors) {
    let spec = object.field("spec");
    let when = spec.field("schedule");
    if when.must_be_set(errors) {
        if let Err(why) = schedule_check::check(when.text()) {
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
    validation::job_spec(&job, errors);
    if job.field("manualSelector").value == &Value::Bool(true) {
        errors.push(Error::not_supported(&job.field("manualSelector").path, &json!(true), &["nil", "false"]));
    }
    if job.field("selector").is_set() {
        job.field("selector").invalid("`selector` will be auto-generated", errors);
    }
}

/// Validates a new CronJob.
fn validate_create(object: &ValueAt<'_>, errors: &mut Errors) {
    validate(object, errors);
    let metadata = object.field("metadata");
    if metadata.field("name").text().len() > CRON_JOB_NAME_MAX {
        metadata.field("name").invalid("must be no more than 52 characters", errors);
    }
}

fn time_zone(zone: &ValueAt<'_>, errors: &mut Errors) {
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

/// Fills in the defaults of a CronJob. The Jobs it creates get their own defaults when they are created.
fn defaults(object: &mut JsonObject) {
    let Some(spec) = defaults::workloads::spec_of(object) else { return };
    set_if_zero(spec, "concurrencyPolicy", "Allow");
    set_if_absent(spec, "suspend", false);
    set_if_absent(spec, "successfulJobsHistoryLimit", 3);
    set_if_absent(spec, "failedJobsHistoryLimit", 1);
    if let Some(job) =
        object_or_insert(spec, "jobTemplate").and_then(|template| object_or_insert(template, "spec"))
    {
        defaults::workloads::default_pod_template(job);
        job::failure_policy(job);
    }
}

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] =
        container_names_and_images(object, "spec.jobTemplate.spec.template.spec.containers");
    let suspended = match read::value_at(object, "spec.suspend").and_then(Value::as_bool) {
        None => "<unset>",
        Some(true) => "True",
        Some(false) => "False",
    };
    let last = read::time_at(object, "status.lastScheduleTime");
    vec![
        read::name(object).into(),
        read::string_at(object, "spec.schedule").into(),
        read::string_at_or(object, "spec.timeZone", "<none>").into(),
        suspended.into(),
        read::list_at(object, "status.active").len().into(),
        last.map_or_else(|| "<none>".to_owned(), |last| age::format_age_since(Some(last), now)).into(),
        age::age_of_object(object, now).into(),
        names,
        images,
        selectors::selector(object, "spec.jobTemplate.spec.selector").into(),
    ]
}
