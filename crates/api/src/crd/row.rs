//! Turns a definition into registry rows: one row per served version, once the names are accepted.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use homeostat_core::Revision;
use serde_json::Value;

use crate::object::meta;
use crate::object::read;
use crate::resource::{ConversionWebhook, CustomKind, KindSource, Resource, ScalePaths, Subresource};
use crate::schema::{self, Schema};

/// The verbs of a custom resource, in the order in which discovery lists them.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs that remain while the definition is being deleted.
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
/// The verbs of the status and scale subresources.
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Returns the rows of a definition stored at `revision`; none until the definition is established under the plural
/// it is stored under. `before` contains the definition's previous rows: an unchanged schema keeps its age.
pub fn rows(definition: &Value, revision: Revision, before: &[Arc<Resource>]) -> Vec<Resource> {
    if !is_established(definition) || !is_accepted(definition) {
        return Vec::new();
    }
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let storage = versions
        .iter()
        .find(|version| version["storage"] == true)
        .map_or("", |one| read::string_at(one, "name"));
    let schemas = Arc::new(schemas(versions));
    let conversion = conversion(definition, revision).map(Arc::new);
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|one| {
            let mut custom = custom(definition, one, storage);
            custom.schema = schemas.get(read::string_at(one, "name")).cloned();
            custom.schemas = Arc::clone(&schemas);
            custom.conversion.clone_from(&conversion);
            custom.schema_since = schema_since(before, one, &custom).unwrap_or(revision);
            row(definition, one, custom)
        })
        .collect()
}

/// Returns a minimal row that suffices to find and delete custom objects, whether or not the definition was ever
/// served.
pub fn bare_row(definition: &Value) -> Resource {
    let spec = &definition["spec"];
    Resource {
        group: read::string_at(spec, "group").into(),
        version: "".into(),
        plural: read::string_at(&spec["names"], "plural").into(),
        singular: "".into(),
        kind: read::string_at(&spec["names"], "kind").into(),
        list_kind: "".into(),
        namespaced: spec["scope"] == "Namespaced",
        verbs: Vec::new(),
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        source: KindSource::Custom(Arc::new(CustomKind { is_terminating: true, ..CustomKind::default() })),
        interested_plugins: OnceLock::new(),
    }
}

/// Returns the webhook that converts objects between the versions of a definition.
fn conversion(definition: &Value, revision: Revision) -> Option<ConversionWebhook> {
    let conversion = &definition["spec"]["conversion"];
    (conversion["strategy"] == "Webhook").then(|| ConversionWebhook {
        definition: meta::name(definition).into(),
        client_config: conversion["webhook"]["clientConfig"].clone(),
        review_versions: texts(&conversion["webhook"]["conversionReviewVersions"]),
        revision,
    })
}

/// Returns the schemas by version, including versions that are no longer served: objects may still be stored in them.
fn schemas(versions: &[Value]) -> BTreeMap<Box<str>, Arc<Schema>> {
    let schema = |one: &Value| {
        let raw = &one["schema"]["openAPIV3Schema"];
        raw.is_object().then(|| (read::string_at(one, "name").into(), schema::custom(raw)))
    };
    versions.iter().filter_map(schema).collect()
}

/// Returns the revision at which this version got its current schema, if it already had it.
fn schema_since(before: &[Arc<Resource>], version: &Value, custom: &CustomKind) -> Option<Revision> {
    let row = before.iter().find(|row| &*row.version == read::string_at(version, "name"))?;
    let before = row.custom()?;
    (before.raw_schema == custom.raw_schema).then_some(before.schema_since)
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// Returns whether the requested plural is the accepted one. Objects are stored under it, and clients can also write
/// the status.
fn is_accepted(definition: &Value) -> bool {
    let names = &definition["status"]["acceptedNames"];
    let plural = read::string_at(&definition["spec"]["names"], "plural");
    !plural.is_empty()
        && read::string_at(names, "plural") == plural
        && !read::string_at(names, "kind").is_empty()
}

fn row(definition: &Value, version: &Value, custom: CustomKind) -> Resource {
    let names = &definition["status"]["acceptedNames"];
    let verbs: &[&str] = if custom.is_terminating { &TERMINATING_VERBS } else { &VERBS };
    let kind = read::string_at(names, "kind");
    Resource {
        group: read::string_at(&definition["spec"], "group").into(),
        version: read::string_at(version, "name").into(),
        plural: read::string_at(names, "plural").into(),
        singular: read::string_at(names, "singular").into(),
        kind: kind.into(),
        list_kind: read::string_at(names, "listKind").into(),
        namespaced: definition["spec"]["scope"] == "Namespaced",
        verbs: boxed(verbs),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        subresources: subresources(version, kind),
        source: KindSource::Custom(Arc::new(custom)),
        interested_plugins: OnceLock::new(),
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

fn custom(definition: &Value, version: &Value, storage: &str) -> CustomKind {
    let raw_schema = version["schema"]["openAPIV3Schema"].clone();
    let columns = version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    CustomKind {
        schema: None,
        schemas: Arc::default(),
        cel: schema::CelRules::compile(&raw_schema),
        columns,
        compiled_columns: OnceLock::new(),
        selectable_fields: fields
            .map(|field| read::string_at(field, "jsonPath").trim_start_matches('.').into())
            .collect(),
        has_status: version["subresources"]["status"].is_object(),
        scale: scale(&version["subresources"]["scale"]),
        storage_version: storage.into(),
        conversion: None,
        deprecation_warning: deprecation(definition, version),
        is_terminating: meta::is_deleting(definition),
        schema_since: Revision::ZERO,
        raw_schema,
    }
}

fn scale(scale: &Value) -> Option<ScalePaths> {
    scale.is_object().then(|| ScalePaths {
        spec_replicas: read::string_at(scale, "specReplicasPath").into(),
        status_replicas: read::string_at(scale, "statusReplicasPath").into(),
        label_selector: scale["labelSelectorPath"].as_str().map(Into::into),
    })
}

fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    (version["deprecated"] == true).then(|| {
        version["deprecationWarning"].as_str().map_or_else(
            || {
                let spec = &definition["spec"];
                let (group, kind) = (read::string_at(spec, "group"), read::string_at(&spec["names"], "kind"));
                format!("{group}/{} {kind} is deprecated", read::string_at(version, "name"))
            },
            Into::into,
        )
    })
}

fn texts(value: &Value) -> Vec<Box<str>> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

fn boxed(texts: &[&str]) -> Vec<Box<str>> {
    texts.iter().map(|text| (*text).into()).collect()
}
