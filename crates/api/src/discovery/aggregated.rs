//! Builds aggregated discovery: everything in one document with an entity tag, which kubectl and client-go read first.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::field_order::in_field_order;
use super::{ServedGroup, ServedVersion};
use crate::negotiate::DiscoveryVersion;
use crate::resource::{Resource, Subresource};

/// A rendered document.
#[derive(Debug)]
pub struct TaggedDocument {
    /// The JSON.
    pub body: Bytes,
    /// Its entity tag, including the quotes.
    pub etag: Box<str>,
}

impl TaggedDocument {
    /// Renders a document and computes its tag: the upper-case hexadecimal SHA-512 of the body.
    pub(crate) fn new(value: &Value) -> Self {
        let mut body = serde_json::to_vec(&in_field_order(value)).expect("JSON values can be written");
        body.push(b'\n');
        Self { etag: format!("\"{:X}\"", Sha512::digest(&body)).into(), body: body.into() }
    }

    pub(super) fn answer(&self, version: DiscoveryVersion, if_none_match: Option<&str>) -> Response<Bytes> {
        let is_known = if_none_match == Some(&*self.etag);
        let builder = Response::builder()
            .header(header::ETAG, &*self.etag)
            .header(header::VARY, "Accept")
            .header(header::CACHE_CONTROL, "public");
        let answer = if is_known {
            builder.status(StatusCode::NOT_MODIFIED).body(Bytes::new())
        } else {
            let body = self.body.clone();
            builder.header(header::CONTENT_TYPE, content_type(version)).body(body)
        };
        answer.expect("a hexadecimal tag is a valid header")
    }
}

fn content_type(version: DiscoveryVersion) -> &'static str {
    match version {
        DiscoveryVersion::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        DiscoveryVersion::V2Beta1 => {
            "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
        }
    }
}

pub(super) fn document<'a>(
    groups: impl Iterator<Item = &'a ServedGroup>,
    version: DiscoveryVersion,
) -> TaggedDocument {
    let api_version = match version {
        DiscoveryVersion::V2 => "apidiscovery.k8s.io/v2",
        DiscoveryVersion::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
    };
    let items: Vec<_> = groups.map(group).collect();
    TaggedDocument::new(&json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items,
    }))
}

fn group(group: &ServedGroup) -> Value {
    let versions: Vec<_> = group.versions.iter().map(version).collect();
    let metadata = if group.name.is_empty() { json!({}) } else { json!({ "name": group.name }) };
    json!({ "metadata": metadata, "versions": versions })
}

fn version(version: &ServedVersion) -> Value {
    let resources: Vec<_> = version.rows.iter().map(|row| resource(row)).collect();
    json!({ "version": version.name, "freshness": "Current", "resources": resources })
}

fn resource(row: &Resource) -> Value {
    let mut object = json!({
        "resource": row.plural,
        "responseKind": own_kind(row, &row.kind),
        "scope": if row.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": row.singular,
        "verbs": row.verbs,
    });
    for (name, list) in [("shortNames", &row.short_names), ("categories", &row.categories)] {
        if !list.is_empty() {
            object[name] = json!(list);
        }
    }
    if !row.subresources.is_empty() {
        object["subresources"] = row.subresources.iter().map(|sub| subresource(row, sub)).collect();
    }
    object
}

fn subresource(row: &Resource, sub: &Subresource) -> Value {
    let kind = if sub.version.is_empty() {
        own_kind(row, &sub.kind)
    } else {
        json!({ "group": sub.group, "version": sub.version, "kind": sub.kind })
    };
    json!({ "subresource": sub.name, "responseKind": kind, "verbs": sub.verbs })
}

/// Returns the kind of a resource. Built-in kinds inherit group and version from their position in the document; custom
/// kinds repeat them.
fn own_kind(row: &Resource, kind: &str) -> Value {
    if row.is_custom() {
        json!({ "group": row.group, "version": row.version, "kind": kind })
    } else {
        json!({ "group": "", "version": "", "kind": kind })
    }
}
