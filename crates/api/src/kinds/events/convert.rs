//! Converts Events between core/v1 and events.k8s.io/v1, which name the same facts differently. The core form is
//! stored; the other is converted when it is written and read.
//!
//! **Invariant:** a round trip yields the same Event. The conversions move values but do not validate them: see
//! [`crate::kinds::validate`].

use std::time::Duration;

use serde_json::{Value, json};

use crate::object::fill::{JsonObject, is_zero};

/// How long an Event is stored after its last write.
pub const TIME_TO_LIVE: Duration = Duration::from_hours(1);

/// Names in core/v1 and in events.k8s.io/v1.
pub(crate) const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Fields of the core form that are written even when empty.
const CORE_ALWAYS: [&str; 7] = [
    "involvedObject",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "reportingComponent",
    "reportingInstance",
];
/// Fields of the newer form that are written even when empty.
const NEWER_ALWAYS: [&str; 5] =
    ["eventTime", "regarding", "deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"];

/// Converts an events.k8s.io/v1 Event to core/v1.
pub(crate) fn to_core(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        rename(fields, NAMES.iter().map(|(core, newer)| (*newer, *core)));
        write_like_type(fields, &CORE_ALWAYS);
        fields.insert("apiVersion".into(), json!("v1"));
    }
    event
}

/// Converts a core/v1 Event to events.k8s.io/v1.
pub(crate) fn from_core(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        rename(fields, NAMES.iter().copied());
        write_like_type(fields, &NEWER_ALWAYS);
        fields.insert("apiVersion".into(), json!("events.k8s.io/v1"));
    }
    event
}

fn rename<'a>(fields: &mut JsonObject, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
}

/// Drops empty fields and adds the fields that are always written.
fn write_like_type(fields: &mut JsonObject, always: &[&str]) {
    fields.retain(|name, value| name == "metadata" || !is_zero(Some(value)));
    for name in always {
        fields.entry(*name).or_insert_with(|| empty(name));
    }
}

fn empty(name: &str) -> Value {
    match name {
        "source" | "deprecatedSource" | "involvedObject" | "regarding" => json!({}),
        "reportingComponent" | "reportingInstance" => json!(""),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_event_reads_as_a_newer_one_and_back() {
        let core = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e.1"},
            "involvedObject": {"kind": "ConfigMap", "name": "a"}, "reason": "Synced", "message": "all good",
            "source": {"component": "op"}, "firstTimestamp": "2020-01-01T00:00:00Z",
            "lastTimestamp": "2020-01-01T00:01:00Z", "count": 2, "type": "Normal", "eventTime": null,
            "reportingComponent": "", "reportingInstance": ""});
        let newer = json!({"kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e.1"},
            "eventTime": null, "reason": "Synced", "regarding": {"kind": "ConfigMap", "name": "a"},
            "note": "all good", "type": "Normal", "deprecatedSource": {"component": "op"},
            "deprecatedFirstTimestamp": "2020-01-01T00:00:00Z", "deprecatedLastTimestamp": "2020-01-01T00:01:00Z",
            "deprecatedCount": 2});
        assert_eq!(from_core(core.clone()), newer);
        assert_eq!(to_core(newer), core);
    }

    #[test]
    fn a_newer_event_reads_as_a_core_one() {
        let newer = json!({"kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "n.1"},
            "eventTime": "2020-01-01T00:00:00.000000Z", "reportingController": "example.test/op",
            "reportingInstance": "op-0", "action": "Sync", "reason": "Synced", "type": "Normal", "note": "done",
            "regarding": {"kind": "ConfigMap", "name": "a"}});
        let core = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "n.1"},
            "involvedObject": {"kind": "ConfigMap", "name": "a"}, "reason": "Synced", "message": "done", "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "type": "Normal",
            "eventTime": "2020-01-01T00:00:00.000000Z", "action": "Sync", "reportingComponent": "example.test/op",
            "reportingInstance": "op-0"});
        assert_eq!(to_core(newer), core);
    }
}
