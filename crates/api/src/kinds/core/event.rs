//! Event: something that happened to an object, stored for a while.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::field::Error;
use crate::names;
use crate::names::NameRule;
use crate::object::read;
use crate::printing::{Column, age};
use crate::resource::declaration::BuiltInKind;
use crate::resource::selectable::{AbsentValue, SelectableFields};
use crate::resource::strategy::PLAIN;
use crate::resource::value_at::{Errors, ValueAt};

/// The fields that Event selectors may name, in the core form in which both groups are stored.
pub(crate) const SELECTABLE: SelectableFields = SelectableFields {
    value: Some(|name, event| (name == "source").then(|| source(event))),
    ..SelectableFields::fields(&[
        ("involvedObject.kind", AbsentValue::Empty),
        ("involvedObject.namespace", AbsentValue::Empty),
        ("involvedObject.name", AbsentValue::Empty),
        ("involvedObject.uid", AbsentValue::Empty),
        ("involvedObject.apiVersion", AbsentValue::Empty),
        ("involvedObject.resourceVersion", AbsentValue::Empty),
        ("involvedObject.fieldPath", AbsentValue::Empty),
        ("reason", AbsentValue::Empty),
        ("reportingComponent", AbsentValue::Empty),
        ("source", AbsentValue::Empty),
        ("type", AbsentValue::Empty),
    ])
};

const REASON_BYTES_MAX: usize = 128;

const NOTE_BYTES_MAX: usize = 1024;

/// The columns of Events in both groups.
pub(crate) const COLUMNS: &[Column] = &[
    Column::text("Last Seen"),
    Column::text("Type"),
    Column::text("Reason"),
    Column::text("Object"),
    Column::text("Subobject").wide(),
    Column::text("Source").wide(),
    Column::text("Message"),
    Column::text("First Seen").wide(),
    Column::text("Count").wide(),
    Column::names("Name").wide(),
];

/// Something that happened to an object, stored for a while.
pub static EVENT: BuiltInKind = BuiltInKind {
    short_names: &["ev"],
    strategy: PLAIN.created_by_update().uncollectable().named(NameRule::PathSegment),
    validate: Some(validate),
    columns: COLUMNS,
    cells: Some(cells),
    selectable: SELECTABLE,
    ..BuiltInKind::namespaced("", "v1", "events", "Event")
};

/// Validates a new or changed Event through core/v1.
fn validate(event: &ValueAt<'_>, errors: &mut Errors) {
    lenient(event, "reportingComponent", errors);
}

pub(in crate::kinds) fn lenient(event: &ValueAt<'_>, controller_name: &str, errors: &mut Errors) {
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
    let controller = ValueAt { value: controller.value, path: event.path.field(controller_name) };
    controller.must_be_set(errors);
    // Empty is also an invalid name: kube-apiserver reports both.
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

pub(in crate::kinds) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let first = read::time_at(object, "firstTimestamp")
        .or_else(|| read::time_at(object, "deprecatedFirstTimestamp"))
        .or_else(|| read::time_at(object, "eventTime"));
    let last = read::time_at(object, "lastTimestamp")
        .or_else(|| read::time_at(object, "deprecatedLastTimestamp"))
        .or(first);
    let series = read::value_at(object, "series");
    let last = series.map_or(last, |series| read::time_at(series, "lastObservedTime"));
    let count = series.map_or_else(
        || read::integer_at(object, "count").max(read::integer_at(object, "deprecatedCount")).max(1),
        |series| read::integer_at(series, "count"),
    );
    let about = ["involvedObject", "regarding"].into_iter().find_map(|field| object.get(field));
    let about = about.unwrap_or(&Value::Null);
    vec![
        age::format_age_since(last, now).into(),
        read::string_at(object, "type").into(),
        read::string_at(object, "reason").into(),
        target(about).into(),
        read::string_at(about, "fieldPath").into(),
        printed_source(object).into(),
        read::string_at_or(object, "message", read::string_at(object, "note")).trim().into(),
        age::format_age_since(first, now).into(),
        count.into(),
        read::name(object).into(),
    ]
}

fn target(about: &Value) -> String {
    let kind = read::string_at(about, "kind").to_lowercase();
    match read::string_at(about, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn printed_source(object: &Value) -> String {
    let first = |paths: [&str; 4]| {
        paths.into_iter().map(|path| read::string_at(object, path)).find(|text| !text.is_empty())
    };
    let component = first([
        "source.component",
        "deprecatedSource.component",
        "reportingComponent",
        "reportingController",
    ]);
    let host = first(["source.host", "deprecatedSource.host", "reportingInstance", "reportingInstance"]);
    match (component.unwrap_or_default(), host) {
        (component, None) => component.to_owned(),
        (component, Some(host)) => format!("{component}, {host}"),
    }
}

fn source(event: &Value) -> String {
    let component =
        event.get("source").map(|source| read::string_at(source, "component")).unwrap_or_default();
    if component.is_empty() { read::string_at(event, "reportingComponent") } else { component }.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_kinds_of_events_print_alike() {
        let now = "2020-01-01T00:01:00Z".parse().expect("a time");
        let core = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Made", "message": " it is\n",
            "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "me", "host": "here"},
            "firstTimestamp": "2020-01-01T00:00:00Z", "lastTimestamp": "2020-01-01T00:00:30Z", "count": 3});
        let expected = json!(["30s", "Normal", "Made", "pod/p", "", "me, here", "it is", "60s", 3, "e"]);
        assert_eq!(Value::from(cells(&core, now)), expected);
        let new = json!({"metadata": {"name": "e"}, "type": "Normal", "reason": "Made", "note": "it is",
            "regarding": {"kind": "Pod", "name": "p"}, "reportingController": "me", "reportingInstance": "here",
            "eventTime": "2020-01-01T00:00:00.000000Z",
            "series": {"count": 3, "lastObservedTime": "2020-01-01T00:00:30.000000Z"}});
        assert_eq!(Value::from(cells(&new, now)), expected);
    }
}
