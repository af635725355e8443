//! Removes what no page may show: the values of Secrets, in objects and in the journal's records of writes. Names and
//! sizes stay.

use homeostat_core::journal::{Entry, Record};
use homeostat_core::write_history::WriteRecord;
use serde_json::{Value, json};

use crate::kinds::WatchedKind;

/// Annotations that hold a copy of the whole object.
const COPIES: &[&str] = &["kubectl.kubernetes.io/last-applied-configuration"];

/// Returns the object with what may not be shown removed.
pub(crate) fn redact(kind: &WatchedKind, mut object: Value) -> Value {
    if !(kind.group.is_empty() && kind.resource == "secrets") {
        return object;
    }
    for field in ["data", "stringData"] {
        if let Some(values) = object[field].as_object_mut() {
            for value in values.values_mut() {
                *value = json!(describe_size(value, field == "data"));
            }
        }
    }
    if let Some(annotations) = object["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !COPIES.contains(&name.as_str()));
    }
    object
}

/// Returns a journal record as it may be shown: changes as strings, and none of the fields of a Secret.
pub(crate) fn redact_record(record: &Record) -> Value {
    let mut shown = serde_json::to_value(record).unwrap_or_default();
    let is_secret = |key: &Value| key.as_str().is_some_and(|key| key.starts_with("/secrets/"));
    let entry = &mut shown["entry"];
    if let Entry::Wrote { diff, .. } = &record.entry {
        entry["diff"] = diff.changes.iter().map(ToString::to_string).collect();
    }
    if entry.get("diff").is_some() && (is_secret(&entry["target"]) || is_secret(&entry["object"])) {
        entry["diff"] = json!([]);
    }
    shown
}

/// Returns a write from the server's history as it may be shown: changes as strings, and for a Secret neither the
/// changes nor the message of a refusal, which may quote it.
pub(crate) fn redact_write(write: &WriteRecord) -> Value {
    let mut shown = serde_json::to_value(write).unwrap_or_default();
    let is_secret = write.target.group().is_empty() && write.target.resource() == "secrets";
    let changes = write.diff.changes.iter().map(ToString::to_string);
    shown["diff"] = if is_secret { json!([]) } else { changes.collect() };
    if is_secret && let Some(refusal) = &write.refusal {
        shown["refusal"] = json!({"code": refusal.code, "message": "(not shown)"});
    }
    shown
}

fn describe_size(value: &Value, is_base64: bool) -> String {
    let letters = value.as_str().unwrap_or_default();
    let padding = letters.bytes().rev().take_while(|byte| *byte == b'=').count();
    let bytes = if is_base64 { (letters.len() / 4 * 3).saturating_sub(padding) } else { letters.len() };
    format!("({bytes} bytes, not shown)")
}

#[cfg(test)]
mod tests {
    use homeostat_core::journal::{Verb, WriteOutcome};
    use homeostat_core::{FieldDiff, Key};
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn journal_records_do_not_show_what_was_written_into_a_secret() {
        let shown = |resource: &str| {
            let target = Key::new("", resource, "a", "x");
            let (object, outcome) = (Key::new("demo.dev", "things", "a", "x"), WriteOutcome::Skipped);
            let diff =
                FieldDiff::between(&target, &json!({"data": {"a": "old"}}), &json!({"data": {"a": "new"}}));
            let entry = Entry::Wrote { object, verb: Verb::Apply, target, outcome, diff };
            redact_record(&Record { at: Timestamp::UNIX_EPOCH, source: "thing".into(), entry })["entry"]["diff"]
                .clone()
        };
        assert_eq!(shown("secrets"), json!([]));
        assert_eq!(shown("configmaps"), json!(["data.a \"old\" → \"new\""]));
    }

    #[test]
    fn no_value_of_a_secret_is_left() {
        let kind = |resource: &str| WatchedKind {
            group: String::new(),
            version: "v1".into(),
            resource: resource.into(),
            kind: String::new(),
            is_namespaced: true,
        };
        let object = json!({
            "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":\"c2VjcmV0\"}", "a": "b"}},
            "data": {"password": "c2VjcmV0", "empty": ""}, "stringData": {"plain": "secret"},
        });
        assert_eq!(
            redact(&kind("secrets"), object.clone()),
            json!({
                "metadata": {"annotations": {"a": "b"}},
                "data": {"password": "(6 bytes, not shown)", "empty": "(0 bytes, not shown)"},
                "stringData": {"plain": "(6 bytes, not shown)"},
            })
        );
        assert_eq!(redact(&kind("configmaps"), object.clone()), object);
    }
}
