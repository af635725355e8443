//! Derives the version 2 document from the version 3 parts: the same facts in different positions.

use serde_json::{Map, Value, json};

use super::components::{self, KindName, for_each_below};
use super::{VERSION, custom, paths, security, write};
use crate::resource::Resource;

const PREFIX: &str = "#/definitions/";

/// Returns the document for all groups.
pub(super) fn document<'a>(rows: impl Iterator<Item = &'a Resource> + Clone) -> Vec<u8> {
    let paths = paths::paths_of_rows(rows.clone()).map(|(name, mut item)| {
        path(&mut item);
        (name, item)
    });
    let mut out =
        format!(r#"{{"swagger":"2.0","info":{{"title":"Kubernetes","version":"{VERSION}"}},"paths":"#).into();
    write::map(&mut out, paths);
    out.extend_from_slice(br#","definitions":"#);
    write::map(&mut out, definitions(rows));
    out.extend_from_slice(br#","securityDefinitions":"#);
    write::value(&mut out, &security());
    out.extend_from_slice(br#","security":[{"BearerToken":[]}]}"#);
    out
}

/// Returns the definitions alone.
pub(super) fn definitions<'a>(rows: impl Iterator<Item = &'a Resource> + Clone) -> Map<String, Value> {
    let mut definitions = components::schemas_of_rows(rows.clone());
    for row in rows {
        reduce_custom(row, &mut definitions);
    }
    for (name, schema) in &mut definitions {
        respell(name, schema);
        translate(schema);
    }
    definitions
}

/// Replaces the schema of a custom kind with one that version 2 can express.
fn reduce_custom(row: &Resource, definitions: &mut Map<String, Value>) {
    let (Some(definition), Some(name)) = (row.custom(), KindName::of(row).schema_name(row)) else { return };
    let mut schema = custom::v2(definition);
    schema["x-kubernetes-group-version-kind"] = json!([KindName::of(row).to_json()]);
    definitions.insert(name, schema);
}

/// Declares the two int-or-string types as strings: version 2 cannot express a choice between types.
fn respell(name: &str, schema: &mut Value) {
    if name.ends_with(".Quantity") || name.ends_with(".IntOrString") {
        schema["type"] = "string".into();
    }
}

/// Moves references to their version 2 path, and puts them back next to their description.
fn translate(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove("oneOf");
    if let Some(Value::Array(several)) = map.remove("allOf")
        && let [Value::Object(only)] = &*several
        && let Some(reference) = only.get("$ref")
    {
        map.insert("$ref".into(), reference.clone());
    }
    if let Some(Value::String(reference)) = map.get_mut("$ref")
        && let Some(name) = reference.strip_prefix(components::PREFIX)
    {
        *reference = format!("{PREFIX}{name}");
    }
    for_each_below(map, &mut translate);
}

fn path(item: &mut Value) {
    let Value::Object(item) = item else { return };
    for (method, part) in item {
        if method == "parameters" {
            part.as_array_mut().into_iter().flatten().for_each(parameter);
        } else {
            operation(part);
        }
    }
}

/// Moves the type of a parameter into the parameter itself.
fn parameter(parameter: &mut Value) {
    let Value::Object(parameter) = parameter else { return };
    if let Some(Value::Object(schema)) = parameter.remove("schema") {
        parameter.extend(schema);
    }
}

/// Turns the body into a parameter, and moves the media types to the operation.
fn operation(operation: &mut Value) {
    let Value::Object(operation) = operation else { return };
    let mut parameters = operation.remove("parameters").unwrap_or_else(|| json!([]));
    parameters.as_array_mut().into_iter().flatten().for_each(parameter);
    if let Some(body) = operation.remove("requestBody") {
        let (consumes, schema) = content(&body["content"]);
        let is_required = body["required"] == Value::Bool(true);
        let body = json!({ "name": "body", "in": "body", "required": is_required, "schema": schema });
        parameters.as_array_mut().expect("is a list").insert(0, body);
        operation.insert("consumes".into(), consumes.into());
    }
    if parameters != json!([]) {
        operation.insert("parameters".into(), parameters);
    }
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    let mut produces = Vec::new();
    for response in responses.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        let Some(found) = response.remove("content").filter(|found| *found != json!({})) else { continue };
        let (media, schema) = content(&found);
        produces = media;
        response.insert("schema".into(), schema);
    }
    operation.insert("produces".into(), produces.into());
    operation.insert("schemes".into(), json!(["https"]));
}

/// Returns the media types of a body, and the schema they share.
fn content(content: &Value) -> (Vec<Value>, Value) {
    let Some(content) = content.as_object() else { return Default::default() };
    let mut schema = content.values().next().map(|one| one["schema"].clone()).unwrap_or_default();
    translate(&mut schema);
    (content.keys().map(|media| media.as_str().into()).collect(), schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_facts_stand_in_other_places() {
        let rows = crate::kinds::built_in_rows();
        let document = document(rows.iter().filter(|row| &*row.kind == "Deployment"));
        let document: Value = serde_json::from_slice(&document).expect("is JSON");
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(
            patch["parameters"][0]["schema"]["$ref"],
            "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
        );
        assert_eq!(patch["parameters"][1]["type"], "string");
        assert_eq!(
            patch["responses"]["200"]["schema"]["$ref"],
            "#/definitions/io.k8s.api.apps.v1.Deployment"
        );
        assert!(
            patch["consumes"]
                .as_array()
                .is_some_and(|list| list.contains(&json!("application/json-patch+json")))
        );
        let spec = &document["definitions"]["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"];
        assert_eq!(spec["$ref"], "#/definitions/io.k8s.api.apps.v1.DeploymentSpec");
        let either = &document["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"];
        assert_eq!((&either["type"], &either["format"]), (&json!("string"), &json!("int-or-string")));
    }
}
