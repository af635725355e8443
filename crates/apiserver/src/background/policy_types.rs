//! Handles ValidatingAdmissionPolicies: checks their expressions against the schemas of the kinds that they match, and
//! reports warnings in their status, as Kubernetes' controller does. A policy is checked again when it changes, but not
//! when a schema does.

use std::collections::BTreeSet;

use homeostat_api::crd;
use homeostat_api::kinds::admissionregistration::validating_admission_policy::VALIDATING_ADMISSION_POLICY;
use homeostat_api::resource::Resource;
use homeostat_api::schema::{CheckedKind, ParameterSchema, expression_warnings};
use homeostat_api::status::Status;
use homeostat_store::Snapshot;
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::registry::ResourceTable;
use crate::server_changes::update_stored_object;
use crate::stored::encode;
use crate::write_history::ServerTask;

/// The maximum number of kinds that are checked, as in Kubernetes.
const KINDS_MAX: usize = 10;

/// The size from which on the expressions of a policy are not checked, because checking them would block other
/// background work for seconds. Typical policies have a few kilobytes.
const EXPRESSIONS_BYTES_MAX: usize = 256 * 1024;

/// Reconciles the status of a policy.
pub(super) async fn reconcile(backend: &Backend, name: &str) -> Result<(), Status> {
    let key = VALIDATING_ADMISSION_POLICY.storage().key("", name);
    let snapshot = backend.store.snapshot();
    let Some(entry) = snapshot.get(&key) else { return Ok(()) };
    let policy = encode::parse_entry(entry);
    let generation = policy["metadata"]["generation"].as_i64().unwrap_or_default();
    if generation <= policy["status"]["observedGeneration"].as_i64().unwrap_or_default() {
        return Ok(());
    }
    let checking = type_checking(backend, &snapshot, &policy);
    let table = backend.registry.table();
    let resource = table.built_in(&VALIDATING_ADMISSION_POLICY);
    update_stored_object((backend, ServerTask::PolicyTypes), resource, &key, |policy| {
        // A newer version of the policy has its own notice.
        if policy["metadata"]["generation"] == generation {
            policy["status"]["observedGeneration"] = generation.into();
            policy["status"]["typeChecking"] = checking.clone();
        }
    })
    .await
}

/// Returns the result of the check, which is empty if there are no warnings.
fn type_checking(backend: &Backend, snapshot: &Snapshot, policy: &Value) -> Value {
    if policy["spec"].to_string().len() > EXPRESSIONS_BYTES_MAX {
        return json!({});
    }
    let table = backend.registry.table();
    let kinds = kinds_to_check(&table, policy);
    let kinds = kinds.into_iter().map(|resource| checked_kind(snapshot, resource)).collect::<Vec<_>>();
    let parameters = parameter_schema(&table, snapshot, policy);
    let warnings = expression_warnings(policy, &kinds, &parameters);
    if warnings.is_empty() {
        return json!({});
    }
    let warnings = warnings.iter().map(|one| json!({"fieldRef": one.field_ref, "warning": one.warning}));
    json!({"expressionWarnings": warnings.collect::<Value>()})
}

/// Returns the resources that a policy matches by name, in order.
fn kinds_to_check<'a>(table: &'a ResourceTable, policy: &Value) -> Vec<&'a Resource> {
    let mut found = BTreeSet::new();
    for rule in policy["spec"]["matchConstraints"]["resourceRules"].as_array().into_iter().flatten() {
        let sorted = |field: &str| {
            let mut names: Vec<_> =
                rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            names.sort_unstable();
            names
        };
        let (groups, versions, resources) = (sorted("apiGroups"), sorted("apiVersions"), sorted("resources"));
        if groups.iter().chain(&versions).any(|name| name.contains('*')) {
            continue;
        }
        let resources = resources.into_iter().filter(|name| !name.contains(['*', '/'])).collect::<Vec<_>>();
        let named = groups.iter().flat_map(|group| versions.iter().map(move |version| (*group, *version)));
        let named = named
            .flat_map(|(group, version)| resources.iter().map(move |resource| (group, version, *resource)));
        let known = named.filter_map(|(group, version, plural)| table.get(group, version, plural));
        for (count, resource) in known.enumerate() {
            found.insert((&*resource.group, &*resource.version, &*resource.kind, &*resource.plural));
            if count + 1 == KINDS_MAX {
                return resources_of(table, found);
            }
        }
    }
    resources_of(table, found)
}

fn resources_of<'a>(
    table: &'a ResourceTable,
    found: BTreeSet<(&str, &str, &str, &str)>,
) -> Vec<&'a Resource> {
    let found = found.into_iter();
    found
        .filter_map(|(group, version, _, plural)| table.get(group, version, plural).map(|row| &**row))
        .collect()
}

/// Returns the kind of a resource, with the schema from its definition if it is a custom kind.
fn checked_kind(snapshot: &Snapshot, resource: &Resource) -> CheckedKind {
    let definition = resource.custom().map(|_| {
        let key = crd::STORAGE.key("", &format!("{}.{}", resource.plural, resource.group));
        let definition = snapshot.get(&key).map(|entry| encode::parse_entry(entry)).unwrap_or_default();
        let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
        let version = versions.into_iter().find(|version| version["name"] == *resource.version);
        version.map(|version| version["schema"]["openAPIV3Schema"].clone()).unwrap_or_default()
    });
    CheckedKind {
        group: resource.group.to_string(),
        version: resource.version.to_string(),
        kind: resource.kind.to_string(),
        definition,
    }
}

fn parameter_schema(table: &ResourceTable, snapshot: &Snapshot, policy: &Value) -> ParameterSchema {
    let kind = &policy["spec"]["paramKind"];
    if kind.is_null() {
        return ParameterSchema::None;
    }
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    match table.by_kind(group, version, text("kind")) {
        Some(resource) => ParameterSchema::Kind(checked_kind(snapshot, resource)),
        None => ParameterSchema::Unknown,
    }
}
