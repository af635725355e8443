//! Event in `events.k8s.io`: something that happened to an object, stored for a while.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::field::Error;
use crate::kinds::core::event;
use crate::kinds::events::convert::{from_core, to_core};
use crate::resource::declaration::{BuiltInKind, VersionConversion};
use crate::resource::selectable::SelectableFields;
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// The fields of an Event that never change. The reason is checked twice, as in kube-apiserver; clients count causes.
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

/// Something that happened to an object, stored for a while.
pub(crate) static EVENT: BuiltInKind = BuiltInKind {
    short_names: &["ev"],
    stored_in: ("", "v1"),
    conversion: Some(VersionConversion {
        is_current: |_, _| false,
        from_stored: |event, _| from_core(event),
        to_stored: |event, _| Some(to_core(event.clone())),
    }),
    strategy: PLAIN.created_by_update().uncollectable(),
    validate_create: Some(validate_create),
    validate_update: Some(validate_update),
    validated_as: Some(to_core),
    columns: event::COLUMNS,
    cells: Some(event::cells),
    selectable: SelectableFields { alias: Some(core_field), ..event::SELECTABLE },
    ..BuiltInKind::namespaced("events.k8s.io", "v1", "events", "Event")
};

/// Validates a new Event through events.k8s.io/v1.
fn validate_create(event: &ValueAt<'_>, errors: &mut Errors) {
    event::lenient(event, "reportingController", errors);
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

/// Validates a changed Event through events.k8s.io/v1: only the series may change.
fn validate_update(new: &ValueAt<'_>, old: &Value, errors: &mut Errors) {
    event::lenient(new, "reportingController", errors);
    if new.field("series").value != &old["series"] {
        series(new, errors);
    }
    for name in FIXED {
        new.field(name).must_stay(&old[name], errors);
    }
}

fn series(event: &ValueAt<'_>, errors: &mut Errors) {
    let series = event.field("series");
    if !series.is_set() {
        return;
    }
    if series.field("count").number() < 2 {
        errors.push(Error::invalid(&series.field("count").path, &json!(""), "should be at least 2"));
    }
    series.field("lastObservedTime").must_be_set(errors);
}

/// Returns the core name of a field; `None` if this group has no such field.
fn core_field(name: &str) -> Option<Cow<'_, str>> {
    match name {
        "reportingController" => Some("reportingComponent".into()),
        "source" | "reportingComponent" => None,
        name if name.starts_with("involvedObject.") => None,
        name => Some(match name.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}").into(),
            None => name.into(),
        }),
    }
}
