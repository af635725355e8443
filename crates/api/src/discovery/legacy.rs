//! There are three unaggregated discovery documents: one for all groups, one per group, and one per version. Older
//! clients, Kopf and many scripts read only these.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{ServedGroup, ServedVersion, group_version};
use crate::resource::{KindSource, Resource, Subresource};

/// The number of hash bytes to show: enough to distinguish ten thousand kinds.
const HASH_BYTES: usize = 8;

/// Returns the document at `/api`.
pub(super) fn api_versions(address: &str) -> Value {
    let addresses = json!([{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }]);
    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses })
}

/// Returns the document at `/apis`.
pub(super) fn groups(groups: &[ServedGroup]) -> Value {
    let named = groups.iter().filter(|group| !group.name.is_empty());
    let listed: Vec<_> = named.map(|group| Value::Object(fields(group))).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": listed })
}

/// Returns the document at `/apis/<group>`.
pub(super) fn group(group: &ServedGroup) -> Value {
    let mut object = fields(group);
    object.insert("kind".into(), "APIGroup".into());
    object.insert("apiVersion".into(), "v1".into());
    Value::Object(object)
}

fn fields(group: &ServedGroup) -> Map<String, Value> {
    let versions: Vec<_> = group
        .versions
        .iter()
        .map(|version| {
            json!({ "groupVersion": group_version(&group.name, &version.name), "version": version.name })
        })
        .collect();
    let mut object = Map::new();
    object.insert("name".into(), (*group.name).into());
    object.insert("preferredVersion".into(), versions.first().cloned().unwrap_or_default());
    object.insert("versions".into(), versions.into());
    object
}

/// Returns the document at `/apis/<group>/<version>` or `/api/v1`; the latter has no apiVersion.
pub(super) fn resources(group: &str, version: &ServedVersion) -> Value {
    let listed: Vec<_> = version
        .rows
        .iter()
        .flat_map(|row| {
            std::iter::once(resource(row)).chain(row.subresources.iter().map(|sub| subresource(row, sub)))
        })
        .collect();
    let group_version = group_version(group, &version.name);
    let mut list = json!({ "kind": "APIResourceList", "groupVersion": group_version, "resources": listed });
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

fn resource(row: &Resource) -> Value {
    let mut object = json!({
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": row.verbs,
    });
    for (name, list) in [("shortNames", &row.short_names), ("categories", &row.categories)] {
        if !list.is_empty() {
            object[name] = json!(list);
        }
    }
    if row.allows("list") && row.allows("create") {
        object["storageVersionHash"] = storage_version_hash(row).into();
    }
    object
}

fn subresource(row: &Resource, sub: &Subresource) -> Value {
    let mut object = json!({
        "name": format!("{}/{}", row.plural, sub.name),
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if !sub.version.is_empty() {
        object["group"] = json!(sub.group);
        object["version"] = json!(sub.version);
    }
    object
}

/// Returns a hash that changes when objects are stored in a different version, so that storage migrators rewrite them.
fn storage_version_hash(row: &Resource) -> String {
    let (group, version) = match &row.source {
        KindSource::BuiltIn(known) => known.kind.stored_in,
        KindSource::Custom(custom) => (&*row.group, &*custom.storage_version),
    };
    let digest = Sha256::digest(format!("{group}/{version}/{}", row.kind));
    STANDARD.encode(&digest[..HASH_BYTES])
}
