//! Creates the `ConversionReview` that is sent to a converter, and checks the response. Errors use Kubernetes' wording.
//!
//! **Invariant:** a conversion changes no metadata except labels and annotations, which must stay valid.

use homeostat_api::field::{Errors, FieldPath};
use homeostat_api::metadata::validate::{validate_annotations, validate_labels};
use homeostat_api::object::depth::{DEPTH_MAX, is_deeper};
use homeostat_api::object::meta;
use serde_json::{Value, json};

/// Returns the review.
pub(super) fn review(version: &str, uid: &str, desired: &str, objects: &[&Value]) -> Value {
    json!({"kind": "ConversionReview", "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "request": {"uid": uid, "desiredAPIVersion": desired, "objects": objects}})
}

/// Checks a response and returns the objects in it.
pub(super) fn check_response(mut answer: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if version == "v1" {
        let (api_version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
        if (&*api_version, &*kind) != ("apiextensions.k8s.io/v1", "ConversionReview") {
            return Err(format!(
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {api_version}, Kind={kind}"
            ));
        }
    }
    let response = &mut answer["response"];
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    if version == "v1" && text(&response["uid"]) != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(&response["uid"])));
    }
    let status = text(&response["result"]["status"]);
    if status != "Success" {
        let message = text(&response["result"]["message"]);
        let why = if message.is_empty() {
            format!("response.result.status was '{status}', not 'Success'")
        } else {
            message
        };
        return Err(why);
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        Value::Null => Ok(Vec::new()),
        _ => Err("response.convertedObjects is not a list".to_owned()),
    }
}

/// Checks a converted object and gives it the metadata of the original, except for labels and annotations. An object
/// has an index only if there are several.
pub(super) fn converted_object(
    original: &Value,
    mut converted: Value,
    desired: &str,
    index: Option<usize>,
) -> Result<Value, String> {
    let place = index.map(|at| format!(" at index {at}"));
    let (what, metadata_place) = match &place {
        Some(place) => ("converted object", format!(" in object{place}")),
        None => ("object", String::new()),
    };
    let invalid =
        |why: String| format!("returned invalid {what}{}: {why}", place.as_deref().unwrap_or(" at index 0"));
    if !converted.is_object() {
        return Err(invalid("it is not an object".to_owned()));
    }
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    for (field, name) in [("apiVersion", "groupVersion"), ("kind", "kind")] {
        let expected = if field == "kind" { text(original, "kind") } else { desired.to_owned() };
        let received = text(&converted, field);
        if expected != received {
            return Err(invalid(format!("invalid {name} (expected {expected}, received {received})")));
        }
    }
    let same = |label: &str, one: &str, other: &str| {
        let why = || {
            format!(
                "returned invalid {what}{}: must have the same {label}: {one} != {other}",
                place.as_deref().unwrap_or_default()
            )
        };
        if one == other { Ok(()) } else { Err(why()) }
    };
    same("name", meta::name(original), meta::name(&converted))?;
    same("namespace", meta::namespace(original), meta::namespace(&converted))?;
    same("UID", meta::uid(original), meta::uid(&converted))?;
    let metadata = restored_metadata(original, &converted)
        .map_err(|why| format!("returned invalid metadata{metadata_place}: {why}"))?;
    converted["metadata"] = metadata;
    // Kubernetes does not bound the depth; here a deeper object could not be read back.
    if is_deeper(&converted, DEPTH_MAX) {
        return Err(invalid(format!("it is nested deeper than {DEPTH_MAX} levels")));
    }
    Ok(converted)
}

/// Returns the metadata of the original with the labels and annotations of the converted object.
fn restored_metadata(original: &Value, converted: &Value) -> Result<Value, String> {
    let answered = match converted.get("metadata") {
        Some(Value::Object(answered)) => answered,
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", go_type(other)));
        }
        None => return Err("missing metadata in converted object".to_owned()),
    };
    let mut metadata = original["metadata"].clone();
    if !metadata.is_object() {
        metadata = json!({});
    }
    for field in ["labels", "annotations"] {
        let value = match answered.get(field) {
            None | Some(Value::Null) => {
                metadata.as_object_mut().map(|fields| fields.remove(field));
                continue;
            }
            Some(value) => value,
        };
        let Value::Object(texts) = value else {
            return Err(format!("invalid metadata.{field} of type {} in converted object", go_type(value)));
        };
        if let Some((key, other)) = texts.iter().find(|(_, text)| !text.is_string()) {
            let kind = go_type(other);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {kind} in converted object"
            ));
        }
        if metadata[field] != *value {
            check_texts(field, value)?;
        }
        metadata[field] = value.clone();
    }
    Ok(metadata)
}

fn check_texts(field: &str, value: &Value) -> Result<(), String> {
    let (root, mut errors) = (FieldPath::Root, Errors::new());
    let path = root.field("metadata");
    if field == "labels" {
        validate_labels(value, &path.field("labels"), &mut errors);
    } else {
        // Kubernetes uses this name.
        validate_annotations(value, &path.field("annotation"), &mut errors);
    }
    let all = errors.iter().map(ToString::to_string).collect::<Vec<_>>();
    match &*all {
        [] => Ok(()),
        [one] => Err(one.clone()),
        all => Err(format!("[{}]", all.join(", "))),
    }
}

/// Returns the type of a value as Go prints it.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests;
