//! The schemas of built-in kinds, made from the typed API crate on first use.
//!
//! **Invariant:** a type has one [`Named`] for the life of the process, so recursive types close on themselves.
//! Descriptions are dropped: publishing makes them again from [`raw`]. A kind nobody uses costs nothing.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock};

use k8s_openapi::schemars::SchemaGenerator;
use k8s_openapi::schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::convert;
use super::facts::Facts;
use super::roots::{ROOTS, Root};
use super::{Named, Ref, Schema};

/// Where references of raw definitions point: the place OpenAPI 3 publishes them at.
const DEFINITIONS_PATH: &str = "/components/schemas";

static TYPES: LazyLock<Mutex<BTreeMap<&'static str, &'static Named>>> = LazyLock::new(Mutex::default);

/// The schema of a built-in kind; `None`: no such kind.
pub fn built_in(group: &str, version: &str, kind: &str) -> Option<Ref> {
    static MADE: [OnceLock<Ref>; ROOTS.len()] = [const { OnceLock::new() }; ROOTS.len()];
    let at = position(group, version, kind)?;
    Some(MADE[at].get_or_init(|| make(&ROOTS[at])).clone())
}

/// The schema of a built-in type by its full name, as `io.k8s.api.apps.v1.Deployment`.
///
/// Finds kinds, and the types below kinds that are in use.
pub fn built_in_type(name: &str) -> Option<Ref> {
    match ROOTS.iter().find(|root| (root.name)() == name) {
        Some(root) => built_in(root.group, root.version, root.kind),
        None => types().get(name).filter(|named| named.schema.get().is_some()).map(|named| Ref::Named(named)),
    }
}

/// The schema of `metadata`.
pub fn object_meta() -> &'static Ref {
    static MADE: LazyLock<Ref> =
        LazyLock::new(|| built_in("", "v1", "ObjectMeta").expect("ObjectMeta is a row of the table"));
    &MADE
}

/// The full name of a built-in kind's type.
pub fn type_name(group: &str, version: &str, kind: &str) -> Option<String> {
    position(group, version, kind).map(|at| (ROOTS[at].name)())
}

/// The JSON schemas of a built-in kind and of all types it refers to, with descriptions, by full type name.
///
/// References read `#/components/schemas/<name>`. Made anew on each call, so that the texts need not be kept.
pub fn raw(group: &str, version: &str, kind: &str) -> Option<Map<String, Value>> {
    position(group, version, kind).map(|at| definitions(&ROOTS[at]))
}

fn position(group: &str, version: &str, kind: &str) -> Option<usize> {
    ROOTS.iter().position(|root| root.kind == kind && root.group == group && root.version == version)
}

/// The JSON schemas of several built-in kinds, as [`raw`] gives them for one; types they share are made once.
pub fn raw_all<'a>(kinds: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> Map<String, Value> {
    let mut generator = generator();
    for at in kinds.into_iter().filter_map(|(group, version, kind)| position(group, version, kind)) {
        (ROOTS[at].generate)(&mut generator);
    }
    generator.take_definitions(false)
}

fn definitions(root: &Root) -> Map<String, Value> {
    let mut generator = generator();
    (root.generate)(&mut generator);
    generator.take_definitions(false)
}

fn generator() -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = DEFINITIONS_PATH.into();
    settings.into_generator()
}

fn make(root: &Root) -> Ref {
    let facts = Facts::read();
    let definitions = definitions(root);
    for (name, json) in &definitions {
        let named = intern(name);
        named.schema.get_or_init(|| convert::built_in(name, json, &facts));
    }
    Ref::Named(intern(&(root.name)()))
}

/// The one place of a type, made empty if it is new.
pub(super) fn intern(name: &str) -> &'static Named {
    let mut types = types();
    if let Some(named) = types.get(name) {
        return named;
    }
    let name: &'static str = Box::leak(Box::from(name));
    let named: &'static Named = Box::leak(Box::new(Named { name, build, schema: OnceLock::new() }));
    types.insert(name, named);
    named
}

/// Types are filled while the kind that refers to them is made, before anyone can see the reference.
fn build(name: &'static str) -> Schema {
    unreachable!("{name} is referred to but was not defined with its kind")
}

fn types() -> MutexGuard<'static, BTreeMap<&'static str, &'static Named>> {
    TYPES.lock().expect("nothing panics while the types are locked")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Resource;
    use crate::schema::{Kind, ListType, Presence};

    /// Bodies of connect verbs are query parameters.
    fn is_document(kind: &str) -> bool {
        !kind.ends_with("Options") || kind == "DeleteOptions"
    }

    #[test]
    fn every_served_kind_and_subresource_body_has_a_schema() {
        for row in Resource::built_in() {
            assert!(built_in(&row.group, &row.version, &row.kind).is_some(), "{} {}", row.group, row.kind);
            for sub in row.subresources.iter().filter(|sub| is_document(&sub.kind)) {
                let group = if sub.version.is_empty() { &row.group } else { &sub.group };
                let version = if sub.version.is_empty() { &row.version } else { &sub.version };
                assert!(built_in(group, version, &sub.kind).is_some(), "{group} {version} {}", sub.kind);
            }
        }
    }

    fn below<'a>(schema: &'a Schema, path: &[&str]) -> &'a crate::schema::Property {
        let Kind::Object(object) = &schema.kind else { panic!("{path:?} is below something without fields") };
        let property = object.properties.get(path[0]).unwrap_or_else(|| panic!("no {}", path[0]));
        match (&path[1..], &property.schema.kind) {
            ([], _) => property,
            (rest, Kind::Array(items)) => below(&items.schema, rest),
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
        let Kind::Object(map) = &limits.schema.kind else { panic!("limits is a map") };
        let value = map.additional.as_ref().expect("limits is a map");
        assert!(matches!(&value.schema.kind, Kind::String(format) if &**format == "quantity"));
        let protocol = below(&deployment, &["spec", "template", "spec", "containers", "ports", "protocol"]);
        assert_eq!(protocol.schema.default, Some("TCP".into()));
        let surge = below(&deployment, &["spec", "strategy", "rollingUpdate", "maxSurge"]);
        assert!(matches!(surge.schema.kind, Kind::IntOrString));
    }

    #[test]
    fn only_raw_types_are_untyped() {
        for root in ROOTS {
            make(root);
        }
        let is_untyped = |one: &&&Named| matches!(one.schema.get().map(|made| &made.kind), Some(Kind::Any));
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
