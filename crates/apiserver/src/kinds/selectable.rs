//! Which fields a field selector may name, and their values.
//!
//! Values are compared as text: booleans as `true` and `false`, numbers in decimal, absent ones as the zero of their
//! type. Parsing selectors and matching them is done elsewhere.

use std::borrow::Cow;

use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;

/// What an absent value of a field reads as.
#[derive(Clone, Copy)]
pub(crate) enum Absent {
    Empty,
    False,
    Zero,
}

/// Returns the name a field is stored under; `None`: the kind does not support the field.
pub(crate) type Alias = fn(&str) -> Option<Cow<'_, str>>;

/// What selectors of a kind may name beside the name of objects.
pub(crate) struct Selectable {
    /// The fields, and the zero of their types.
    pub(crate) fields: &'static [(&'static str, Absent)],
    /// May selectors name the namespace?
    pub(crate) has_namespace: bool,
    /// Other names of fields; `None`: there are none.
    pub(crate) alias: Option<Alias>,
    /// The value of a field that is not read where its name says.
    pub(crate) value: Option<fn(&str, &Value) -> Option<String>>,
    /// What is said about other fields, in the words of the real server.
    pub(crate) refusal: fn(&str) -> String,
}

impl Selectable {
    /// Selectors may name nothing but name and namespace.
    pub(crate) const NAMES_ONLY: Self =
        Self { fields: &[], has_namespace: true, alias: None, value: None, refusal: only_names };

    /// Selectors may also name these fields.
    pub(super) const fn fields(fields: &'static [(&'static str, Absent)]) -> Self {
        Self { fields, refusal: not_supported, ..Self::NAMES_ONLY }
    }

    /// The same, without the namespace.
    pub(super) const fn without_namespace(mut self) -> Self {
        self.has_namespace = false;
        self
    }

    fn find(&self, name: &str) -> Option<Absent> {
        if name == "metadata.name" || (name == "metadata.namespace" && self.has_namespace) {
            return Some(Absent::Empty);
        }
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, absent)| *absent)
    }
}

fn only_names(name: &str) -> String {
    format!("{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
}

fn not_supported(name: &str) -> String {
    format!("field label not supported: {name}")
}

/// The name a field is stored under and the zero of its type; `None`: the kind does not support it.
fn supported<'a>(resource: &Resource, name: &'a str) -> Option<(Cow<'a, str>, Absent)> {
    let Some(kind) = resource.declaration() else {
        let is_known = name == "metadata.name"
            || (name == "metadata.namespace" && resource.namespaced)
            || resource.custom()?.selectable_fields.iter().any(|field| &**field == name);
        return is_known.then_some((name.into(), Absent::Empty));
    };
    let name = kind.selectable.alias.map_or(Some(name.into()), |alias| alias(name))?;
    let absent = kind.selectable.find(&name)?;
    Some((name, absent))
}

/// The value of a selectable field of an object in its stored form; `None`: the kind does not support the field.
pub(crate) fn field(resource: &Resource, name: &str, object: &Value) -> Option<String> {
    let (name, absent) = supported(resource, name)?;
    let own = resource.declaration().and_then(|kind| kind.selectable.value);
    if let Some(value) = own.and_then(|own| own(&name, object)) {
        return Some(value);
    }
    Some(shown(name.split('.').fold(object, |value, part| value.get(part).unwrap_or(&Value::Null)), absent))
}

/// Refuses a field the kind does not support, in the words of the real server.
pub(crate) fn check(resource: &Resource, name: &str) -> Result<(), Status> {
    if supported(resource, name).is_some() {
        return Ok(());
    }
    let refusal =
        resource.declaration().map_or(not_supported as fn(&str) -> String, |kind| kind.selectable.refusal);
    Err(Status::bad_request(refusal(name)))
}

fn shown(value: &Value, absent: Absent) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => match absent {
            Absent::Empty => String::new(),
            Absent::False => "false".into(),
            Absent::Zero => "0".into(),
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
