//! `/scale`: a small autoscaling/v1 object that shows and sets the number of replicas.
//!
//! Built-in kinds store the numbers at fixed paths, custom kinds at the paths in their definition.

use serde_json::{Value, json};

use crate::field::{Error, Errors, FieldPath};
use crate::object::fill::{is_zero, object_or_insert};
use crate::object::read;
use crate::resource::{Resource, ScalePaths};
use crate::status::Status;

/// Returns the Scale of an object.
pub fn scale_of(resource: &Resource, object: &Value) -> Result<Value, Status> {
    let (wanted, present, selector) = if let Some(scale) = custom_scale(resource) {
        let selector = scale.label_selector.as_deref().map(|path| at_path(object, path));
        let selector = selector.and_then(Value::as_str).unwrap_or_default().to_owned();
        (at_path(object, &scale.spec_replicas), at_path(object, &scale.status_replicas), selector)
    } else {
        let selector = &object["spec"]["selector"];
        (&object["spec"]["replicas"], &object["status"]["replicas"], selector_text(selector))
    };
    if let (true, Some(scale)) = (wanted.is_null(), custom_scale(resource)) {
        let message = format!("the spec replicas field {:?} does not exist", scale.spec_replicas);
        return Err(Status::internal(&message));
    }
    Ok(scale_object(&object["metadata"], wanted, present, &selector))
}

fn custom_scale(resource: &Resource) -> Option<&ScalePaths> {
    resource.custom().and_then(|custom| custom.scale.as_ref())
}

fn scale_object(metadata: &Value, wanted: &Value, present: &Value, selector: &str) -> Value {
    let mut shown = serde_json::Map::new();
    for name in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(name) {
            shown.insert(name.into(), value.clone());
        }
    }
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": {},
        "status": {"replicas": present.as_i64().unwrap_or(0)}});
    if !is_zero(Some(wanted)) {
        scale["spec"]["replicas"] = wanted.clone();
    }
    if !selector.is_empty() {
        scale["status"]["selector"] = json!(selector);
    }
    scale
}

/// Validates a Scale that a client sent.
pub fn validate_scale(scale: &Value) -> Errors {
    let replicas = &scale["spec"]["replicas"];
    if replicas.as_i64().unwrap_or(0) >= 0 {
        return Errors::new();
    }
    let spec = FieldPath::Root.field("spec");
    Error::invalid(&spec.field("replicas"), replicas, "must be greater than or equal to 0").into()
}

/// Validates the numbers and the selector of a custom object that has a Scale. For a write to its status, validates
/// only the parts that belong to the status.
pub fn validate_scaled(resource: &Resource, object: &Value, is_status: bool) -> Errors {
    let Some(scale) = custom_scale(resource) else { return Errors::new() };
    let mut errors = Errors::new();
    if !is_status {
        validate_count(object, &scale.spec_replicas, &mut errors);
    }
    validate_count(object, &scale.status_replicas, &mut errors);
    if let Some(path) = &scale.label_selector
        && let value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) =
            at_path(object, path)
    {
        errors.push(Error::invalid(
            &FieldPath::Root.field(path),
            &json!(""),
            &mistyped_error(path, value, "string"),
        ));
    }
    errors
}

fn validate_count(object: &Value, path: &str, errors: &mut Errors) {
    let value = at_path(object, path);
    let root = FieldPath::Root;
    let place = root.field(path);
    match value.as_i64() {
        _ if value.is_null() => {}
        None => errors.push(Error::invalid(&place, &json!(0), &mistyped_error(path, value, "int64"))),
        Some(count) if count < 0 => {
            errors.push(Error::invalid(&place, value, "should be a non-negative integer"));
        }
        Some(count) if count > i64::from(i32::MAX) => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.push(Error::invalid(&place, value, &detail));
        }
        Some(_) => {}
    }
}

fn mistyped_error(path: &str, value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::String(_) | Value::Null => "string",
    };
    format!("{path} accessor error: {value} is of the type {found}, expected {wanted}")
}

/// Returns the object with the number of replicas that a valid Scale requests.
pub fn apply_scale(resource: &Resource, mut object: Value, scale: &Value) -> Value {
    let replicas = json!(scale["spec"]["replicas"].as_i64().unwrap_or(0));
    let path = custom_scale(resource).map_or(".spec.replicas", |scale| scale.spec_replicas.as_str());
    let names: Vec<&str> = path_names(path).collect();
    let Some((last, parents)) = names.split_last() else { return object };
    let target = object
        .as_object_mut()
        .and_then(|fields| parents.iter().try_fold(fields, |fields, name| object_or_insert(fields, name)));
    if let Some(target) = target {
        target.insert((*last).into(), replicas);
    }
    object
}

fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('.').filter(|name| !name.is_empty())
}

fn at_path<'a>(object: &'a Value, path: &str) -> &'a Value {
    path_names(path).fold(object, |value, name| value.get(name).unwrap_or(&Value::Null))
}

/// Returns a selector as text. The selector of a ReplicationController is a plain map.
pub(crate) fn selector_text(selector: &Value) -> String {
    let is_plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let labels = if is_plain { selector } else { &selector["matchLabels"] };
    let labels = labels.as_object().into_iter().flatten();
    let labels =
        labels.map(|(key, value)| (key.as_str(), format!("{key}={}", value.as_str().unwrap_or_default())));
    let expressions = read::list_at(selector, "matchExpressions")
        .iter()
        .map(|one| (read::string_at(one, "key"), expression_text(one)));
    let mut all: Vec<(&str, String)> = labels.chain(expressions).collect();
    all.sort();
    all.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn expression_text(expression: &Value) -> String {
    let key = read::string_at(expression, "key");
    let mut values: Vec<&str> =
        read::list_at(expression, "values").iter().filter_map(Value::as_str).collect();
    values.sort_unstable();
    let values = values.join(",");
    match read::string_at(expression, "operator") {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployments() -> Resource {
        crate::kinds::built_in_rows().into_iter().find(|row| &*row.plural == "deployments").expect("served")
    }

    #[test]
    fn a_deployment_shows_its_scale() {
        let object = json!({"metadata": {"name": "web", "namespace": "n", "uid": "u", "labels": {"a": "b"}},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}}, "status": {}});
        let scale = scale_of(&deployments(), &object).expect("has a scale");
        assert_eq!(
            scale,
            json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "web", "namespace": "n", "uid": "u"}, "spec": {},
                "status": {"replicas": 0, "selector": "app=web"}})
        );
        let scaled = apply_scale(&deployments(), object, &json!({"spec": {"replicas": 2}}));
        assert_eq!(scaled["spec"]["replicas"], json!(2));
    }

    #[test]
    fn negative_replicas_are_refused() {
        let errors = validate_scale(&json!({"spec": {"replicas": -1}}));
        assert_eq!(
            errors[0].to_string(),
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
        );
        assert!(validate_scale(&json!({"spec": {}})).is_empty());
    }

    #[test]
    fn numbers_of_custom_objects_are_validated_where_they_are() {
        let scale = ScalePaths {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            label_selector: Some(".status.sel".into()),
        };
        let custom = crate::resource::CustomKind { scale: Some(scale), ..Default::default() };
        let source = crate::resource::KindSource::Custom(std::sync::Arc::new(custom));
        let resource = Resource { source, ..deployments() };
        let told = |object: Value, is_status: bool| {
            let errors = validate_scaled(&resource, &object, is_status);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let wrong = json!({"spec": {"replicas": -1}, "status": {"replicas": 2_147_483_648_i64, "sel": 1}});
        let status = ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647; \
            .status.sel: Invalid value: \"\": .status.sel accessor error: 1 is of the type int64, expected string";
        assert_eq!(told(wrong.clone(), true), status);
        let spec = ".spec.replicas: Invalid value: -1: should be a non-negative integer; ";
        assert_eq!(told(wrong, false), format!("{spec}{status}"));
        assert_eq!(told(json!({"spec": {"replicas": 0}}), false), "");
    }

    #[test]
    fn selectors_are_written_in_order() {
        let selector = json!({"matchLabels": {"b": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "c", "operator": "DoesNotExist"}]});
        assert_eq!(selector_text(&selector), "a in (x,y),b=1,!c");
        assert_eq!(selector_text(&json!({"app": "x"})), "app=x");
    }
}
