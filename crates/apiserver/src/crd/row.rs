//! A definition as rows of the registry: one per served version, once its names are accepted.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use homeostat_core::Revision;
use serde_json::Value;

use crate::object::meta;
use crate::resource::{Custom, Resource, Scale, Source, Subresource};
use crate::schema::{self, Schema};

/// Verbs of a custom resource, in the order discovery lists them.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs left while the definition is being deleted.
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
/// Verbs of status and scale.
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// The rows of a definition stored at `revision`; none until it is established under the name it is kept by. `before` are
/// its rows so far: what did not change in them is as old as it was.
pub(crate) fn rows(definition: &Value, revision: Revision, before: &[Arc<Resource>]) -> Vec<Resource> {
    if !is_established(definition) || !is_accepted(definition) {
        return Vec::new();
    }
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage =
        versions.iter().find(|version| version["storage"] == true).map_or("", |one| text(one, "name"));
    let schemas = Arc::new(schemas(versions));
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|one| {
            let mut custom = custom(definition, one, storage);
            custom.schema = schemas.get(text(one, "name")).cloned();
            custom.schemas = Arc::clone(&schemas);
            custom.schema_since = schema_since(before, one, &custom).unwrap_or(revision);
            row(definition, one, custom)
        })
        .collect()
}

/// The schemas by version, also of versions no longer served: objects may still be stored in them.
fn schemas(versions: &[Value]) -> BTreeMap<Box<str>, Arc<Schema>> {
    let schema = |one: &Value| {
        let raw = &one["schema"]["openAPIV3Schema"];
        raw.is_object().then(|| (text(one, "name").into(), schema::custom(raw)))
    };
    versions.iter().filter_map(schema).collect()
}

/// Since when this version has its schema, if it had it before.
fn schema_since(before: &[Arc<Resource>], version: &Value, custom: &Custom) -> Option<Revision> {
    let row = before.iter().find(|row| &*row.version == text(version, "name"))?;
    let before = row.custom()?;
    (before.raw_schema == custom.raw_schema).then_some(before.schema_since)
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Is the plural that was asked for the one that was accepted? Objects are kept under it, and a status can be written
/// by others than us.
fn is_accepted(definition: &Value) -> bool {
    let names = &definition["status"]["acceptedNames"];
    let plural = text(&definition["spec"]["names"], "plural");
    !plural.is_empty() && text(names, "plural") == plural && !text(names, "kind").is_empty()
}

fn row(definition: &Value, version: &Value, custom: Custom) -> Resource {
    let names = &definition["status"]["acceptedNames"];
    let verbs: &[&str] = if custom.is_terminating { &TERMINATING_VERBS } else { &VERBS };
    let kind = text(names, "kind");
    Resource {
        group: text(&definition["spec"], "group").into(),
        version: text(version, "name").into(),
        plural: text(names, "plural").into(),
        singular: text(names, "singular").into(),
        kind: kind.into(),
        list_kind: text(names, "listKind").into(),
        namespaced: definition["spec"]["scope"] == "Namespaced",
        verbs: boxed(verbs),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        subresources: subresources(version, kind),
        source: Source::Custom(Arc::new(custom)),
    }
}

fn subresources(version: &Value, kind: &str) -> Vec<Subresource> {
    let mut subresources = Vec::new();
    if version["subresources"]["status"].is_object() {
        subresources.push(subresource("status", kind, "", ""));
    }
    if version["subresources"]["scale"].is_object() {
        subresources.push(subresource("scale", "Scale", "autoscaling", "v1"));
    }
    subresources
}

fn subresource(name: &str, kind: &str, group: &str, version: &str) -> Subresource {
    Subresource {
        name: name.into(),
        kind: kind.into(),
        group: group.into(),
        version: version.into(),
        verbs: boxed(&SUBRESOURCE_VERBS),
    }
}

fn custom(definition: &Value, version: &Value, storage: &str) -> Custom {
    let raw_schema = version["schema"]["openAPIV3Schema"].clone();
    let columns = version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    Custom {
        schema: None,
        schemas: Arc::default(),
        cel: schema::Cel::compile(&raw_schema),
        columns,
        compiled_columns: OnceLock::new(),
        selectable_fields: fields
            .map(|field| text(field, "jsonPath").trim_start_matches('.').into())
            .collect(),
        has_status: version["subresources"]["status"].is_object(),
        scale: scale(&version["subresources"]["scale"]),
        storage_version: storage.into(),
        deprecation_warning: deprecation(definition, version),
        is_terminating: meta::is_deleting(definition),
        schema_since: Revision::ZERO,
        raw_schema,
    }
}

fn scale(scale: &Value) -> Option<Scale> {
    scale.is_object().then(|| Scale {
        spec_replicas: text(scale, "specReplicasPath").into(),
        status_replicas: text(scale, "statusReplicasPath").into(),
        label_selector: scale["labelSelectorPath"].as_str().map(Into::into),
    })
}

fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    (version["deprecated"] == true).then(|| {
        version["deprecationWarning"].as_str().map_or_else(
            || {
                let spec = &definition["spec"];
                let (group, kind) = (text(spec, "group"), text(&spec["names"], "kind"));
                format!("{group}/{} {kind} is deprecated", text(version, "name"))
            },
            Into::into,
        )
    })
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<Box<str>> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

fn boxed(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|text| (*text).into()).collect()
}
