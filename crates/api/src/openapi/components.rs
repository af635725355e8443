//! Builds the schemas that a document refers to: built-in types with descriptions and merge extensions, lists, and the
//! types that every document needs.
//!
//! They come from the schemas of the typed API crate, whose notation differs in small ways from what Kubernetes
//! publishes; the differences kubectl can see are removed here.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::custom;
use crate::resource::{Resource, Subresource};
use crate::schema;

/// Says how fields merge, by type and field. An empty field means the type itself.
const MERGE_FACTS: &str = include_str!("../../facts/merge_keys.json");
/// The path of schemas in version 3 documents.
pub(super) const PREFIX: &str = "#/components/schemas/";
/// The body of every patch.
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// The type of success and failure responses.
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
/// The body of every deletion.
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// The metadata of every object.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The metadata of every list.
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// Built-in types that every document needs.
const COMMON: [&str; 3] = ["DeleteOptions", "Status", "ObjectMeta"];
/// Types that hold arbitrary JSON; they are published without a type.
const UNTYPED: [&str; 4] = [
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

/// Merge extensions by type, field and name of the extension.
type MergeFacts = BTreeMap<&'static str, BTreeMap<&'static str, BTreeMap<&'static str, Value>>>;

/// A kind with its group and version.
#[derive(Clone, Copy, Debug)]
pub(super) struct KindName<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

impl<'a> KindName<'a> {
    pub(super) fn of(row: &'a Resource) -> Self {
        Self { group: &row.group, version: &row.version, kind: &row.kind }
    }

    /// Returns the kind of a subresource's body.
    pub(super) fn of_subresource(row: &'a Resource, sub: &'a Subresource) -> Self {
        if sub.version.is_empty() {
            Self { kind: &sub.kind, ..Self::of(row) }
        } else {
            Self { group: &sub.group, version: &sub.version, kind: &sub.kind }
        }
    }

    /// Returns the value of the extension `x-kubernetes-group-version-kind`.
    pub(super) fn to_json(self) -> Value {
        json!({ "group": self.group, "version": self.version, "kind": self.kind })
    }

    /// Returns the name of its schema; `None` for a built-in kind without one, such as connection options.
    pub(super) fn schema_name(self, row: &Resource) -> Option<String> {
        if row.is_custom() && self.group == &*row.group {
            return Some(custom::schema_name(self.group, self.version, self.kind));
        }
        schema::type_name(self.group, self.version, self.kind)
    }
}

/// Returns the name of the schema of a resource's lists.
pub(super) fn list_name(row: &Resource) -> Option<String> {
    let name = KindName::of(row).schema_name(row)?;
    let (package, _) = name.rsplit_once('.')?;
    Some(format!("{package}.{}", row.list_kind()))
}

/// Returns a reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{PREFIX}{name}") })
}

/// Returns all schemas that the documents of these rows refer to.
pub(super) fn schemas_of_rows<'a>(rows: impl Iterator<Item = &'a Resource> + Clone) -> Map<String, Value> {
    let every = COMMON.into_iter().map(|kind| ("", "v1", kind));
    let own = rows.clone().flat_map(bodies).map(|kind| (kind.group, kind.version, kind.kind));
    let mut schemas = schema::raw_all(every.chain(own));
    publish(&mut schemas);
    schemas.insert(PATCH.into(), json!({ "description": "The body of a patch.", "type": "object" }));
    for row in rows.clone() {
        add_custom_and_list(row, &mut schemas);
    }
    for (name, kind) in [(DELETE_OPTIONS, "DeleteOptions"), (STATUS, "Status")] {
        name_kind(&mut schemas, name, KindName { group: "", version: "v1", kind });
    }
    for row in rows {
        for kind in bodies(row) {
            kind.schema_name(row).inspect(|name| name_kind(&mut schemas, name, kind));
        }
    }
    schemas
}

fn name_kind(schemas: &mut Map<String, Value>, name: &str, kind: KindName<'_>) {
    if let Some(schema) = schemas.get_mut(name) {
        schema["x-kubernetes-group-version-kind"] = json!([kind.to_json()]);
    }
}

/// Returns the body kinds of a resource and of its subresources.
fn bodies(row: &Resource) -> impl Iterator<Item = KindName<'_>> {
    let subresources = row.subresources.iter().map(|sub| KindName::of_subresource(row, sub));
    std::iter::once(KindName::of(row)).chain(subresources)
}

fn add_custom_and_list(row: &Resource, schemas: &mut Map<String, Value>) {
    let Some(name) = KindName::of(row).schema_name(row) else { return };
    if let Some(list) = list_name(row).filter(|_| row.allows("list")) {
        let kind = row.list_kind();
        schemas.insert(list.clone(), list_schema(row, &name));
        name_kind(schemas, &list, KindName { kind: &kind, ..KindName::of(row) });
    }
    if let Some(definition) = row.custom() {
        schemas.insert(name, custom::v3(definition));
    }
}

fn list_schema(row: &Resource, item: &str) -> Value {
    let mut schema = json!({
        "description": format!("{} is a list of {}.", row.list_kind(), row.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": { "description": "The items.", "type": "array", "items": { "allOf": [reference(item)] } },
            "metadata": { "description": "The metadata of the list.", "allOf": [reference(LIST_META)] },
        },
    });
    custom::add_type_meta(&mut schema);
    schema
}

/// Removes the differences between the typed crate's notation and Kubernetes' own.
fn publish(schemas: &mut Map<String, Value>) {
    let facts: MergeFacts = serde_json::from_str(MERGE_FACTS).expect("the merge table is checked by a test");
    for (name, schema) in schemas {
        wrap_references(schema);
        forget_required_metadata(schema);
        if let Some(facts) = facts.get(&**name) {
            add_merge_facts(schema, facts);
        }
        respell(name, schema);
    }
}

/// Wraps references that have a description: a reference must not have siblings.
pub(super) fn wrap_references(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.len() > 1
        && let Some(reference) = map.remove("$ref")
    {
        map.insert("allOf".into(), json!([{ "$ref": reference }]));
    }
    for_each_below(map, &mut wrap_references);
}

/// Calls the function for every schema directly below this one. A property may be called `items` or `$ref`, so only
/// positions that hold schemas are followed.
pub(super) fn for_each_below(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&mut Value)) {
    for (key, below) in schema.iter_mut() {
        match (&**key, below) {
            ("properties" | "definitions" | "patternProperties", Value::Object(properties)) => {
                properties.values_mut().for_each(&mut *visit);
            }
            ("items" | "additionalProperties" | "not", one) => visit(one),
            ("allOf" | "anyOf" | "oneOf", Value::Array(several)) => several.iter_mut().for_each(&mut *visit),
            _ => {}
        }
    }
}

/// Makes metadata optional: the typed crate requires it in every object, Kubernetes fills it in.
fn forget_required_metadata(schema: &mut Value) {
    if schema["properties"].get("apiVersion").is_none() {
        return;
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != "metadata");
        if required.is_empty() {
            schema.as_object_mut().map(|schema| schema.remove("required"));
        }
    }
}

fn add_merge_facts(schema: &mut Value, facts: &BTreeMap<&str, BTreeMap<&str, Value>>) {
    for (field, facts) in facts {
        let place = match *field {
            "" => Some(&mut *schema),
            field => schema.get_mut("properties").and_then(|properties| properties.get_mut(field)),
        };
        let Some(Value::Object(place)) = place else { continue };
        for (name, value) in facts {
            let name =
                if name.starts_with("x-") { (*name).to_owned() } else { format!("x-kubernetes-{name}") };
            place.insert(name, value.clone());
        }
    }
}

/// Replaces the schemas of types whose JSON is determined by code.
fn respell(name: &str, schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if UNTYPED.contains(&name) {
        schema.retain(|key, _| key == "description");
    }
    if schema.remove("x-kubernetes-int-or-string").is_none() {
        return;
    }
    if name.ends_with(".Quantity") {
        schema.insert("oneOf".into(), json!([{ "type": "string" }, { "type": "number" }]));
    } else {
        schema.insert("oneOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
        schema.insert("format".into(), "int-or-string".into());
    }
}
