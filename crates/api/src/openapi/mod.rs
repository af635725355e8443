//! Builds the OpenAPI documents: version 3, one document per group and version, and version 2, all in one.
//!
//! **Invariant:** a document is a function of the rows it was built from, and its entity tag is a digest of those rows,
//! so the index can name all tags without rendering a single document. Version 3 documents are rendered on request and
//! not kept: clients cache them under their tag for a year. Version 2, which is one large document that takes a long
//! time to render, is kept from its first request until the rows change. Protobuf is offered for version 2 only, and
//! only with the parts that kubectl reads.

mod answer;
mod components;
mod custom;
mod parameters;
mod paths;
mod protobuf;
mod v2;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Response;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use self::answer::DocumentEncoding;
use crate::negotiate::{self, parameter};
use crate::resource::Resource;

/// The Kubernetes release whose API is described.
const VERSION: &str = "v1.36.4";
/// The subtype of `application/` that asks for version 2 as protobuf.
const V2_PROTOBUF: &str = "com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// All OpenAPI documents for one set of rows.
#[derive(Debug)]
pub struct OpenApiDocuments {
    versions: Vec<OpenApiVersion>,
    tag: OnceLock<Box<str>>,
    v2_json: OnceLock<Bytes>,
    v2_protobuf: OnceLock<Bytes>,
}

/// One group and version.
#[derive(Debug)]
struct OpenApiVersion {
    /// `api/v1` or `apis/apps/v1`.
    path: Box<str>,
    rows: Vec<Arc<Resource>>,
    tag: OnceLock<Box<str>>,
}

/// A request for a document.
#[derive(Clone, Copy, Debug)]
pub struct OpenApiRequest<'a> {
    /// The path.
    pub path: &'a str,
    /// The raw query.
    pub query: &'a str,
    /// The `Accept` header.
    pub accept: Option<&'a str>,
    /// The `If-None-Match` header.
    pub if_none_match: Option<&'a str>,
    /// The current time, for the expiry of cached documents.
    pub now: Timestamp,
}

impl OpenApiDocuments {
    /// Creates the documents for these rows; nothing is rendered yet.
    pub fn new(rows: &[Arc<Resource>]) -> Self {
        let mut versions = BTreeMap::<String, Vec<Arc<Resource>>>::new();
        for row in rows {
            versions.entry(base_path(row)).or_default().push(Arc::clone(row));
        }
        let versions = versions
            .into_iter()
            .map(|(path, rows)| OpenApiVersion { path: path.into(), rows, tag: OnceLock::new() })
            .collect();
        Self { versions, tag: OnceLock::new(), v2_json: OnceLock::new(), v2_protobuf: OnceLock::new() }
    }

    /// Returns whether the document at this path is already rendered. Rendering the built-in kinds' schemas alone takes
    /// milliseconds.
    pub fn is_made(&self, path: &str) -> bool {
        path == "/openapi/v2" && self.v2_json.get().is_some()
    }

    /// Answers a GET below `/openapi`. Returns `None` if there is no such path.
    pub fn answer(&self, request: &OpenApiRequest<'_>) -> Option<Response<Bytes>> {
        match request.path.strip_prefix("/openapi/")? {
            "v2/" | "v3/" => Some(answer::not_found()),
            "v2" if negotiate::prefers(request.accept, V2_PROTOBUF) => {
                let render = || {
                    let made = || protobuf::document(&v2::definitions(self.rows())).into();
                    self.v2_protobuf.get_or_init(made).clone()
                };
                Some(answer::document(request, self.tag(), DocumentEncoding::Protobuf, render))
            }
            // The index is served regardless of what the client accepts.
            "v3" => Some(answer::index(&self.index())),
            _ if !negotiate::prefers(request.accept, "json") => Some(answer::not_acceptable()),
            "v2" => Some(answer::document(request, self.tag(), DocumentEncoding::Json, || self.v2())),
            path => path.strip_prefix("v3/").map(|path| self.version(request, path.trim_end_matches('/'))),
        }
    }

    /// Returns the index at `/openapi/v3`.
    pub fn index(&self) -> Value {
        let paths: Map<_, _> = self
            .versions
            .iter()
            .map(|version| (version.path.to_string(), json!({ "serverRelativeURL": version.url() })))
            .collect();
        json!({ "paths": paths })
    }

    /// Returns the version 3 document for a path such as `apis/apps/v1`.
    pub fn v3(&self, path: &str) -> Option<Vec<u8>> {
        self.versions.iter().find(|version| &*version.path == path).map(OpenApiVersion::document)
    }

    /// Returns the version 2 document for all groups.
    pub fn v2(&self) -> Bytes {
        self.v2_json.get_or_init(|| v2::document(self.rows()).into()).clone()
    }

    fn rows(&self) -> impl Iterator<Item = &Resource> + Clone {
        self.versions.iter().flat_map(|version| &version.rows).map(|row| &**row)
    }

    fn version(&self, request: &OpenApiRequest<'_>, path: &str) -> Response<Bytes> {
        let Some(version) = self.versions.iter().find(|version| &*version.path == path) else {
            return answer::not_found();
        };
        let render = || version.document().into();
        match parameter(request.query, "hash").filter(|hash| !hash.is_empty()) {
            Some(hash) if hash != version.tag() => answer::moved(&version.url()),
            Some(_) => answer::kept(
                answer::document(request, version.tag(), DocumentEncoding::Json, render),
                request.now,
            ),
            None => answer::document(request, version.tag(), DocumentEncoding::Json, render),
        }
    }

    fn tag(&self) -> &str {
        self.tag.get_or_init(|| {
            let mut digest = Sha512::new();
            for version in &self.versions {
                digest.update(version.tag());
            }
            format!("{:X}", digest.finalize()).into()
        })
    }
}

impl OpenApiVersion {
    fn tag(&self) -> &str {
        self.tag.get_or_init(|| tag(&self.rows).into())
    }

    fn url(&self) -> String {
        format!("/openapi/v3/{}?hash={}", self.path, self.tag())
    }

    fn document(&self) -> Vec<u8> {
        let rows = self.rows.iter().map(|row| &**row);
        let mut out =
            format!(r#"{{"openapi":"3.0.0","info":{{"title":"Kubernetes","version":"{VERSION}"}},"paths":"#)
                .into();
        write::map(&mut out, paths::paths_of_rows(rows.clone()));
        out.extend_from_slice(br#","components":{"schemas":"#);
        write::map(&mut out, components::schemas_of_rows(rows));
        out.extend_from_slice(br#","securitySchemes":"#);
        write::value(&mut out, &security());
        out.extend_from_slice(b"}}");
        out
    }
}

/// Returns how clients authenticate.
fn security() -> Value {
    json!({ "BearerToken": {
        "type": "apiKey", "in": "header", "name": "authorization", "description": "Bearer token authentication",
    } })
}

/// Returns `api/v1` or `apis/apps/v1`.
fn base_path(row: &Resource) -> String {
    if row.group.is_empty() {
        format!("api/{}", row.version)
    } else {
        format!("apis/{}/{}", row.group, row.version)
    }
}

/// Returns a digest of everything that a document is built from.
fn tag(rows: &[Arc<Resource>]) -> String {
    let mut digest = Sha512::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    for row in rows {
        let facts = json!([
            row.group,
            row.version,
            row.plural,
            row.singular,
            row.kind,
            row.list_kind,
            row.namespaced,
            row.verbs
        ]);
        digest.update(facts.to_string());
        for sub in &row.subresources {
            digest.update(json!([sub.name, sub.group, sub.version, sub.kind, sub.verbs]).to_string());
        }
        if let Some(custom) = row.custom() {
            digest.update(custom.raw_schema.to_string());
            digest.update(json!(custom.selectable_fields).to_string());
        }
    }
    format!("{:X}", digest.finalize())
}

#[cfg(test)]
mod tests {
    use http::{StatusCode, header};

    use super::*;

    fn documents() -> OpenApiDocuments {
        let rows: Vec<_> = crate::kinds::built_in_rows().into_iter().map(Arc::new).collect();
        OpenApiDocuments::new(&rows)
    }

    fn parsed(document: &[u8]) -> Value {
        serde_json::from_slice(document).expect("is JSON")
    }

    fn request(path: &str) -> OpenApiRequest<'_> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        OpenApiRequest { path, query, accept: None, if_none_match: None, now: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn the_core_document_is_as_recorded() {
        let document = parsed(&documents().v3("api/v1").expect("is served"));
        let schemas = &document["components"]["schemas"];
        let kind = &schemas["io.k8s.api.core.v1.ConfigMap"]["x-kubernetes-group-version-kind"];
        assert_eq!(*kind, json!([{"group": "", "kind": "ConfigMap", "version": "v1"}]));
        let pod = &schemas["io.k8s.api.core.v1.PodSpec"];
        let containers = &pod["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert_eq!(pod["required"], json!(["containers"]));
        let path = &document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"];
        assert_eq!(path["get"]["x-kubernetes-action"], "get");
    }

    #[test]
    fn the_document_of_everything_is_made_once() {
        let documents = documents();
        assert!(!documents.is_made("/openapi/v2"));
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| documents.v2());
            (documents.v2(), other.join().expect("is made"))
        });
        assert!(documents.is_made("/openapi/v2") && one.as_ptr() == other.as_ptr());
    }

    #[test]
    fn every_reference_of_every_document_leads_somewhere() {
        let documents = documents();
        for version in &documents.versions {
            let document = parsed(&version.document());
            let schemas = document["components"]["schemas"].as_object().expect("schemas");
            check_references(&document, schemas, "#/components/schemas/");
        }
        let document = parsed(&documents.v2());
        let definitions = document["definitions"].as_object().expect("definitions");
        check_references(&document, definitions, "#/definitions/");
        assert!(definitions.contains_key("io.k8s.api.apps.v1.DeploymentList"));
    }

    #[track_caller]
    fn check_references(value: &Value, known: &Map<String, Value>, prefix: &str) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let name = reference.strip_prefix(prefix).unwrap_or_else(|| panic!("{reference}"));
                    assert!(known.contains_key(name), "{name} is missing");
                }
                map.values().for_each(|value| check_references(value, known, prefix));
            }
            Value::Array(list) => list.iter().for_each(|value| check_references(value, known, prefix)),
            _ => {}
        }
    }

    #[test]
    fn a_document_is_kept_under_its_hash() {
        let documents = documents();
        let url = documents.index()["paths"]["apis/apps/v1"]["serverRelativeURL"]
            .as_str()
            .expect("a URL")
            .to_owned();
        let right = documents.answer(&request(&url)).expect("is served");
        assert_eq!(right.headers()[header::CACHE_CONTROL], "public, immutable");
        assert_eq!(right.headers()[header::EXPIRES], "Fri, 01 Jan 1971 00:00:00 GMT");
        let tag = right.headers()[header::ETAG].to_str().expect("is text");
        let wrong = documents.answer(&request("/openapi/v3/apis/apps/v1?hash=0")).expect("is served");
        assert_eq!(
            (wrong.status(), wrong.headers()[header::LOCATION].to_str().expect("is text")),
            (StatusCode::MOVED_PERMANENTLY, &*url)
        );
        let known = OpenApiRequest { if_none_match: Some(tag), ..request("/openapi/v3/apis/apps/v1") };
        assert_eq!(documents.answer(&known).expect("is served").status(), StatusCode::NOT_MODIFIED);
        let missing = documents.answer(&request("/openapi/v3/apis/nope.oracle.test/v1")).expect("is served");
        assert_eq!(
            (missing.status(), missing.headers().get(header::CONTENT_TYPE)),
            (StatusCode::NOT_FOUND, None)
        );
    }

    #[test]
    fn only_version_2_comes_as_protobuf() {
        let documents = documents();
        let ask = |path: &str, accept: &str| {
            let answer = documents
                .answer(&OpenApiRequest { accept: Some(accept), ..request(path) })
                .expect("is served");
            let kind = answer
                .headers()
                .get(header::CONTENT_TYPE)
                .map(|kind| kind.to_str().expect("is text").to_owned());
            (answer.status().as_u16(), kind.unwrap_or_default())
        };
        let json = (200, "application/json".to_owned());
        let v2 = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
        let v3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
        let protobuf = (200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf".to_owned());
        assert_eq!(ask("/openapi/v2", v2), protobuf);
        assert_eq!(ask("/openapi/v2", "*/*"), json);
        assert_eq!(ask("/openapi/v2", &format!("application/json, {v2}")), json);
        let plain = (200, "text/plain; charset=utf-8".to_owned());
        assert_eq!(ask("/openapi/v3", v3), plain);
        assert_eq!(ask("/openapi/v3", "application/json"), plain);
        assert_eq!(ask("/openapi/v3/apis/apps/v1", "text/html").0, 406);
    }
}
