//! Builds the schemas of built-in kinds from `facts/schemas.txt` on first use.
//!
//! **Invariant:** a type has one [`NamedSchema`] for the life of the process, so recursive types refer to themselves.
//! Descriptions are dropped: they are read again with [`raw`] for publishing. An unused kind costs nothing.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};

use serde_json::{Map, Value};

use super::convert;
use super::facts::TypeFacts;
use super::type_lines;
use super::{NamedSchema, Schema, SchemaRef};

static TYPES: LazyLock<Mutex<BTreeMap<&'static str, &'static NamedSchema>>> = LazyLock::new(Mutex::default);

/// Returns the schema of a built-in kind; `None` if there is no such kind.
pub fn built_in(group: &str, version: &str, kind: &str) -> Option<SchemaRef> {
    type_lines::position_of_kind(group, version, kind).map(schema_at)
}

/// Returns the schema of a built-in type by its full name, such as `io.k8s.api.apps.v1.Deployment`.
pub fn built_in_type(name: &str) -> Option<SchemaRef> {
    type_lines::position_of_type(name).map(schema_at)
}

/// Returns the schema of `metadata`.
pub fn object_meta() -> &'static SchemaRef {
    static BUILT: LazyLock<SchemaRef> =
        LazyLock::new(|| built_in("", "v1", "ObjectMeta").expect("ObjectMeta is a line of the file"));
    &BUILT
}

/// Returns the full name of a built-in kind's type.
pub fn type_name(group: &str, version: &str, kind: &str) -> Option<String> {
    type_lines::position_of_kind(group, version, kind).map(|at| type_lines::types()[at].name.to_owned())
}

/// Returns the JSON schemas of a built-in kind and of all types it refers to, with descriptions, by full type name.
///
/// References read `#/components/schemas/<name>`. It is built again on each call, so that the descriptions need not be
/// kept.
pub fn raw(group: &str, version: &str, kind: &str) -> Option<Map<String, Value>> {
    type_lines::position_of_kind(group, version, kind).map(|at| type_lines::described_closure([at]))
}

/// Returns the JSON schemas of several built-in kinds, as [`raw`] does for one; types they share are built once.
pub fn raw_all<'a>(kinds: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Map<String, Value> {
    type_lines::described_closure(
        kinds
            .into_iter()
            .filter_map(|(group, version, kind)| type_lines::position_of_kind(group, version, kind)),
    )
}

/// Returns the schema of the type at this position, built on first use.
fn schema_at(at: usize) -> SchemaRef {
    static BUILT: LazyLock<Vec<OnceLock<SchemaRef>>> =
        LazyLock::new(|| type_lines::types().iter().map(|_| OnceLock::new()).collect());
    BUILT[at].get_or_init(|| build_schema_at(at)).clone()
}

fn build_schema_at(at: usize) -> SchemaRef {
    let facts = TypeFacts::read();
    for (name, json) in &type_lines::closure([at]) {
        intern(name).schema.get_or_init(|| convert::built_in(name, json, &facts));
    }
    SchemaRef::Named(intern(type_lines::types()[at].name))
}

/// Returns the only instance of a type, created empty if it is new.
pub(super) fn intern(name: &str) -> &'static NamedSchema {
    let mut types = types();
    if let Some(named) = types.get(name) {
        return named;
    }
    let name: &'static str = Box::leak(Box::from(name));
    let named: &'static NamedSchema =
        Box::leak(Box::new(NamedSchema { name, build, schema: OnceLock::new() }));
    types.insert(name, named);
    named
}

/// Types are filled while the kind that refers to them is built, before the reference becomes visible.
fn build(name: &'static str) -> Schema {
    unreachable!("{name} is referred to but was not defined with its kind")
}

fn types() -> MutexGuard<'static, BTreeMap<&'static str, &'static NamedSchema>> {
    TYPES.lock().expect("nothing panics while the types are locked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ListType, Presence, SchemaType};

    /// Returns whether a kind is a document; the bodies of connect verbs are query parameters instead.
    fn is_document(kind: &str) -> bool {
        !kind.ends_with("Options") || kind == "DeleteOptions"
    }

    #[test]
    fn every_served_kind_and_subresource_body_has_a_schema() {
        for row in crate::kinds::built_in_rows() {
            assert!(built_in(&row.group, &row.version, &row.kind).is_some(), "{} {}", row.group, row.kind);
            for sub in row.subresources.iter().filter(|sub| is_document(&sub.kind)) {
                let group = if sub.version.is_empty() { &row.group } else { &sub.group };
                let version = if sub.version.is_empty() { &row.version } else { &sub.version };
                assert!(built_in(group, version, &sub.kind).is_some(), "{group} {version} {}", sub.kind);
            }
        }
    }

    fn below<'a>(schema: &'a Schema, path: &[&str]) -> &'a crate::schema::Property {
        let SchemaType::Object(object) = &schema.kind else {
            panic!("{path:?} is below something without fields")
        };
        let property = object.properties.get(path[0]).unwrap_or_else(|| panic!("no {}", path[0]));
        match (&path[1..], &property.schema.kind) {
            ([], _) => property,
            (rest, SchemaType::Array(items)) => below(&items.schema, rest),
            (rest, _) => below(&property.schema, rest),
        }
    }

    #[test]
    fn fields_carry_types_merge_facts_and_presence() {
        let deployment = built_in_type("io.k8s.api.apps.v1.Deployment").expect("it is served");
        let containers = below(&deployment, &["spec", "template", "spec", "containers"]);
        assert_eq!(containers.merge.list, ListType::Map(vec!["name".into()]));
        assert!(containers.merge.patch.merge);
        assert_eq!(containers.merge.patch_key.as_deref(), Some("name"));
        assert_eq!(containers.presence, Presence::Always);
        let selector = below(&deployment, &["spec", "selector"]);
        assert!(selector.merge.atomic_map, "LabelSelector is atomic");
        let limits = below(&deployment, &["spec", "template", "spec", "containers", "resources", "limits"]);
        let SchemaType::Object(map) = &limits.schema.kind else { panic!("limits is a map") };
        let value = map.additional.as_ref().expect("limits is a map");
        assert!(matches!(&value.schema.kind, SchemaType::String(format) if &**format == "quantity"));
        let protocol = below(&deployment, &["spec", "template", "spec", "containers", "ports", "protocol"]);
        assert_eq!(protocol.schema.default, Some("TCP".into()));
        let surge = below(&deployment, &["spec", "strategy", "rollingUpdate", "maxSurge"]);
        assert!(matches!(surge.schema.kind, SchemaType::IntOrString));
    }

    #[test]
    fn only_raw_types_are_untyped() {
        for at in 0..type_lines::types().len() {
            schema_at(at);
        }
        let is_untyped =
            |one: &&&NamedSchema| matches!(one.schema.get().map(|made| &made.kind), Some(SchemaType::Any));
        let types = types();
        let untyped: Vec<_> = types.values().filter(is_untyped).map(|one| one.name).collect();
        expect_test::expect![[r"
            io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON
            io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray
            io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool
            io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray
            io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1
            io.k8s.apimachinery.pkg.runtime.RawExtension"]]
        .assert_eq(&untyped.join("\n"));
    }

    #[test]
    fn raw_definitions_have_descriptions_and_point_into_components() {
        let raw = raw("", "v1", "ConfigMap").expect("it is served");
        let metadata = &raw["io.k8s.api.core.v1.ConfigMap"]["properties"]["metadata"];
        assert_eq!(metadata["$ref"], "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        assert!(metadata["description"].is_string());
    }
}
