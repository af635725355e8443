//! Determines the fields that a field selector may name, and their values.
//!
//! Values are compared as strings: booleans as `true` and `false`, numbers in decimal, absent values as the zero of
//! their type. Selectors are parsed and matched elsewhere.

use std::borrow::Cow;

use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;

/// The value of an absent field.
#[derive(Clone, Copy)]
pub(crate) enum AbsentValue {
    Empty,
    False,
    Zero,
}

/// Returns the name under which a field is stored; `None` if the kind does not support the field.
pub(crate) type FieldAlias = fn(&str) -> Option<Cow<'_, str>>;

/// The fields that selectors of a kind may name, besides the object's name.
pub(crate) struct SelectableFields {
    /// The fields, and the zero of their types.
    pub(crate) fields: &'static [(&'static str, AbsentValue)],
    /// Whether selectors may name the namespace.
    pub(crate) has_namespace: bool,
    /// Other names of fields; `None` if there are none.
    pub(crate) alias: Option<FieldAlias>,
    /// Returns the value of a field that is not stored under its name.
    pub(crate) value: Option<fn(&str, &Value) -> Option<String>>,
    /// Returns the message about other fields, with kube-apiserver's wording.
    pub(crate) refusal: fn(&str) -> String,
}

impl SelectableFields {
    /// Allows only the name and the namespace.
    pub(crate) const NAMES_ONLY: Self =
        Self { fields: &[], has_namespace: true, alias: None, value: None, refusal: only_names };

    /// Allows the name, the namespace and these fields.
    pub(crate) const fn fields(fields: &'static [(&'static str, AbsentValue)]) -> Self {
        Self { fields, refusal: not_supported, ..Self::NAMES_ONLY }
    }

    /// Removes the namespace.
    pub(crate) const fn without_namespace(mut self) -> Self {
        self.has_namespace = false;
        self
    }

    fn find(&self, name: &str) -> Option<AbsentValue> {
        if name == "metadata.name" || (name == "metadata.namespace" && self.has_namespace) {
            return Some(AbsentValue::Empty);
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

/// Returns the name under which a field is stored and the zero of its type; `None` if the kind does not support it.
fn supported<'a>(resource: &Resource, name: &'a str) -> Option<(Cow<'a, str>, AbsentValue)> {
    let Some(kind) = resource.declaration() else {
        let is_known = name == "metadata.name"
            || (name == "metadata.namespace" && resource.namespaced)
            || resource.custom()?.selectable_fields.iter().any(|field| &**field == name);
        return is_known.then_some((name.into(), AbsentValue::Empty));
    };
    let name = kind.selectable.alias.map_or(Some(name.into()), |alias| alias(name))?;
    let absent = kind.selectable.find(&name)?;
    Some((name, absent))
}

/// Returns the value of a selectable field of an object in its stored form; `None` if the kind does not support the
/// field.
pub fn field(resource: &Resource, name: &str, object: &Value) -> Option<String> {
    let (name, absent) = supported(resource, name)?;
    let own = resource.declaration().and_then(|kind| kind.selectable.value);
    if let Some(value) = own.and_then(|own| own(&name, object)) {
        return Some(value);
    }
    Some(shown(name.split('.').fold(object, |value, part| value.get(part).unwrap_or(&Value::Null)), absent))
}

/// Rejects a field that the kind does not support, with kube-apiserver's wording.
pub fn check(resource: &Resource, name: &str) -> Result<(), Status> {
    if supported(resource, name).is_some() {
        return Ok(());
    }
    let refusal =
        resource.declaration().map_or(not_supported as fn(&str) -> String, |kind| kind.selectable.refusal);
    Err(Status::bad_request(refusal(name)))
}

fn shown(value: &Value, absent: AbsentValue) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => match absent {
            AbsentValue::Empty => String::new(),
            AbsentValue::False => "false".into(),
            AbsentValue::Zero => "0".into(),
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
        let rows = crate::kinds::built_in_rows();
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
        let rows = crate::kinds::built_in_rows();
        let secrets = rows.iter().find(|row| &*row.plural == "secrets").expect("served");
        let refusal = check(secrets, "metadata.uid").expect_err("unsupported");
        assert_eq!(refusal.message, "field label not supported: metadata.uid");
    }
}
