//! Which fields a field selector may name, per kind, and their values.
//!
//! Values are compared as text: booleans as `true` and `false`, numbers in decimal, absent ones as the zero of their
//! type. Parsing selectors and matching them is done elsewhere.

use serde_json::Value;

use super::fill::text;
use crate::resource::Resource;
use crate::status::Status;

/// What an absent value of a field reads as.
#[derive(Clone, Copy)]
enum Absent {
    Empty,
    False,
    Zero,
}

use Absent::{Empty, False, Zero};

/// A kind and the fields it supports beside name and namespace: the name in selectors and the zero of its type.
type Row = (&'static str, &'static str, &'static [(&'static str, Absent)]);

const ROWS: &[Row] = &[
    (
        "",
        "pods",
        &[
            ("spec.nodeName", Empty),
            ("spec.restartPolicy", Empty),
            ("spec.schedulerName", Empty),
            ("spec.serviceAccountName", Empty),
            ("spec.hostNetwork", False),
            ("status.phase", Empty),
            ("status.podIP", Empty),
            ("status.podIPs", Empty),
            ("status.nominatedNodeName", Empty),
        ],
    ),
    ("", "nodes", &[("spec.unschedulable", False)]),
    ("", "namespaces", &[("status.phase", Empty)]),
    ("", "secrets", &[("type", Empty)]),
    ("", "services", &[("spec.clusterIP", Empty), ("spec.type", Empty)]),
    ("", "replicationcontrollers", &[("status.replicas", Zero)]),
    ("batch", "jobs", &[("status.successful", Zero)]),
    ("certificates.k8s.io", "certificatesigningrequests", &[("spec.signerName", Empty)]),
    ("resource.k8s.io", "resourceslices", &[("spec.nodeName", Empty), ("spec.driver", Empty)]),
    (
        "",
        "events",
        &[
            ("involvedObject.kind", Empty),
            ("involvedObject.namespace", Empty),
            ("involvedObject.name", Empty),
            ("involvedObject.uid", Empty),
            ("involvedObject.apiVersion", Empty),
            ("involvedObject.resourceVersion", Empty),
            ("involvedObject.fieldPath", Empty),
            ("reason", Empty),
            ("reportingComponent", Empty),
            ("source", Empty),
            ("type", Empty),
        ],
    ),
];

/// Kinds whose selectors do not know a namespace.
const WITHOUT_NAMESPACE: [&str; 4] = ["nodes", "namespaces", "certificatesigningrequests", "resourceslices"];

/// The name a field is stored under, or `None` when the kind does not support it.
fn canonical<'a>(resource: &Resource, name: &'a str) -> Option<std::borrow::Cow<'a, str>> {
    let name = match (&*resource.group, &*resource.plural, name) {
        ("", "pods", "spec.host") => "spec.nodeName",
        ("events.k8s.io", "events", "reportingController") => "reportingComponent",
        ("events.k8s.io", "events", "source" | "reportingComponent") => return None,
        ("events.k8s.io", "events", other) => {
            if let Some(rest) = other.strip_prefix("regarding.") {
                return Some(format!("involvedObject.{rest}").into());
            }
            if other.starts_with("involvedObject.") {
                return None;
            }
            other
        }
        (_, _, name) => name,
    };
    Some(name.into())
}

fn supported(resource: &Resource, name: &str) -> Option<Absent> {
    let has_namespace = match resource.custom() {
        Some(_) => resource.namespaced,
        None => !WITHOUT_NAMESPACE.contains(&&*resource.plural),
    };
    if name == "metadata.name" || (name == "metadata.namespace" && has_namespace) {
        return Some(Empty);
    }
    if let Some(custom) = resource.custom() {
        return custom.selectable_fields.iter().any(|field| &**field == name).then_some(Empty);
    }
    // Both faces of Events are stored as core ones.
    let group = if &*resource.plural == "events" { "" } else { &*resource.group };
    let row = ROWS.iter().find(|(of, plural, _)| *of == group && *plural == &*resource.plural)?;
    row.2.iter().find(|(field, _)| *field == name).map(|(_, absent)| *absent)
}

/// The value of a selectable field of an object in its stored form; `None`: the kind does not support the field.
pub fn field(resource: &Resource, name: &str, object: &Value) -> Option<String> {
    let name = canonical(resource, name)?;
    let absent = supported(resource, &name)?;
    if &*resource.plural == "events" && !resource.is_custom() && name == "source" {
        return Some(event_source(object));
    }
    Some(shown(name.split('.').fold(object, |value, part| value.get(part).unwrap_or(&Value::Null)), absent))
}

/// Refuses a field the kind does not support, in the words of the real server.
pub fn check(resource: &Resource, name: &str) -> Result<(), Status> {
    if canonical(resource, name).is_some_and(|name| supported(resource, &name).is_some()) {
        return Ok(());
    }
    let own_words = resource.is_custom()
        || ROWS.iter().any(|(_, plural, _)| *plural == &*resource.plural && &*resource.plural != "jobs");
    Err(Status::bad_request(if own_words {
        format!("field label not supported: {name}")
    } else if &*resource.plural == "jobs" {
        format!("field label {name:?} not supported for Job")
    } else {
        format!("{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }))
}

fn event_source(event: &Value) -> String {
    let component = event.get("source").map(|source| text(source, "component")).unwrap_or_default();
    if component.is_empty() { text(event, "reportingComponent") } else { component }.to_owned()
}

fn shown(value: &Value, absent: Absent) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => match absent {
            Empty => String::new(),
            False => "false".into(),
            Zero => "0".into(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_value(group: &str, plural: &str, name: &str, object: &Value, expected: Option<&str>) {
        let rows = Resource::built_in();
        let row = rows.iter().find(|row| &*row.group == group && &*row.plural == plural).expect("served");
        assert_eq!(field(row, name, object).as_deref(), expected, "{plural} {name}");
        assert_eq!(check(row, name).is_ok(), expected.is_some(), "{plural} {name}");
    }

    #[test]
    fn each_kind_has_its_fields() {
        let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}});
        check_value("", "pods", "spec.host", &pod, Some("a"));
        check_value("", "pods", "spec.hostNetwork", &pod, Some("false"));
        check_value("", "pods", "metadata.namespace", &pod, Some("n"));
        check_value("", "pods", "metadata.uid", &pod, None);
        check_value("", "configmaps", "metadata.name", &pod, Some("p"));
        check_value("", "configmaps", "type", &pod, None);
        check_value("", "nodes", "metadata.namespace", &pod, None);
        check_value("batch", "jobs", "status.successful", &json!({}), Some("0"));
    }

    #[test]
    fn both_faces_of_events_select_the_same_things() {
        let event = json!({"involvedObject": {"kind": "Secret"}, "reportingComponent": "op"});
        check_value("", "events", "involvedObject.kind", &event, Some("Secret"));
        check_value("events.k8s.io", "events", "regarding.kind", &event, Some("Secret"));
        check_value("events.k8s.io", "events", "reportingController", &event, Some("op"));
        check_value("", "events", "source", &event, Some("op"));
        check_value("", "events", "message", &event, None);
        check_value("", "events", "regarding.kind", &event, None);
    }

    #[test]
    fn the_refusals_have_the_words_of_the_real_server() {
        let rows = Resource::built_in();
        let secrets = rows.iter().find(|row| &*row.plural == "secrets").expect("served");
        let refusal = check(secrets, "metadata.uid").expect_err("unsupported");
        assert_eq!(refusal.message, "field label not supported: metadata.uid");
    }
}
