//! Events, in their core form whichever face they came through. The newer face is strict, the core one is lenient for
//! old clients.

use serde_json::{Value, json};

use super::at::{At, Errors};
use crate::field::Error;
use crate::kinds::names;

const REASON_BYTES_MAX: usize = 128;
const NOTE_BYTES_MAX: usize = 1024;

/// What of an Event never changes. The reason is checked twice, as the real server does; clients count causes.
const FIXED: [&str; 14] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// A new or changed Event through core/v1.
pub(in crate::kinds) fn core(event: &At<'_>, errors: &mut Errors) {
    lenient(event, "reportingComponent", errors);
}

/// A new Event through events.k8s.io/v1.
pub(in crate::kinds) fn newer_create(event: &At<'_>, errors: &mut Errors) {
    lenient(event, "reportingController", errors);
    series(event, errors);
    event.field("eventTime").must_be_set(errors);
    let kind = event.field("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        errors.push(Error::invalid(&kind.path, &json!(""), &format!("has invalid value: {}", kind.text())));
    }
    for name in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let old_style = event.field(name);
        if !old_style.is_zero() {
            errors.push(Error::invalid(&old_style.path, &json!(""), "needs to be unset"));
        }
    }
}

/// A changed Event through events.k8s.io/v1: only the series moves.
pub(in crate::kinds) fn newer_update(new: &At<'_>, old: &Value, errors: &mut Errors) {
    lenient(new, "reportingController", errors);
    if new.field("series").value != &old["series"] {
        series(new, errors);
    }
    for name in FIXED {
        new.field(name).must_stay(&old[name], errors);
    }
}

fn series(event: &At<'_>, errors: &mut Errors) {
    let series = event.field("series");
    if !series.is_set() {
        return;
    }
    if series.field("count").number() < 2 {
        errors.push(Error::invalid(&series.field("count").path, &json!(""), "should be at least 2"));
    }
    series.field("lastObservedTime").must_be_set(errors);
}

fn lenient(event: &At<'_>, controller_name: &str, errors: &mut Errors) {
    let metadata = event.field("metadata");
    let namespace = metadata.field("namespace").text();
    let involved = event.field("involvedObject");
    let about = involved.field("namespace");
    let has_time = !event.field("eventTime").is_zero();
    let fits = match (about.text(), has_time) {
        ("", false) => matches!(namespace, "" | "default"),
        ("", true) => matches!(namespace, "default" | "kube-system"),
        (about, false) => about == namespace,
        (_, true) => true,
    };
    if !fits {
        errors.push(Error::invalid(&about.path, &json!(about.text()), "does not match event.namespace"));
    }
    if !has_time {
        return;
    }
    let controller = event.field("reportingComponent");
    let controller = At { value: controller.value, path: event.path.field(controller_name) };
    controller.must_be_set(errors);
    // Empty is also none of the names it could be: the real server tells both.
    for why in names::qualified(controller.text()) {
        errors.push(Error::invalid(&controller.path, &json!(controller.text()), &why));
    }
    event.field("reportingInstance").must_be_set(errors);
    event.field("action").must_be_set(errors);
    event.field("reason").must_be_set(errors);
    let limits = [
        ("reportingInstance", REASON_BYTES_MAX),
        ("action", REASON_BYTES_MAX),
        ("reason", REASON_BYTES_MAX),
        ("message", NOTE_BYTES_MAX),
    ];
    for (name, bytes_max) in limits {
        let part = event.field(name);
        if part.text().len() > bytes_max {
            errors.push(Error::invalid(
                &part.path,
                &json!(""),
                &format!("can have at most {bytes_max} characters"),
            ));
        }
    }
}
