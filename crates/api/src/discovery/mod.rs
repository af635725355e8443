//! Discovery tells clients which groups, versions and resources are served, in the old form (one document each) and in
//! the aggregated one.
//!
//! **Invariant:** the documents are functions of the rows they were built from. The owner of the rows builds new
//! [`DiscoveryDocuments`] when the rows change; the large documents are rendered on first use and kept with their
//! entity tag.

mod aggregated;
mod field_order;
mod legacy;
mod order;
mod root;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::Value;

pub use self::aggregated::TaggedDocument;
pub use self::order::compare_versions;
pub use self::root::MANAGED_LABEL;
use crate::negotiate::{
    self, AnswerEncoding, AnswerPreferences, DiscoveryForm, DiscoveryVersion, EndpointForms, OfferedForms,
    Representation,
};
use crate::protobuf;
use crate::resource::Resource;
use crate::status::Status;

/// All discovery documents of one set of rows.
#[derive(Debug)]
pub struct DiscoveryDocuments {
    groups: Vec<ServedGroup>,
    core: AggregatedDocuments,
    named: AggregatedDocuments,
}

/// One aggregated document for each version of the document type.
#[derive(Debug, Default)]
struct AggregatedDocuments {
    v2: OnceLock<TaggedDocument>,
    v2beta1: OnceLock<TaggedDocument>,
}

/// An API group: the core group comes first and has an empty name.
#[derive(Debug)]
struct ServedGroup {
    name: Box<str>,
    /// Preferred version first.
    versions: Vec<ServedVersion>,
}

/// One version of a group, with its resources by name.
#[derive(Debug)]
struct ServedVersion {
    name: Box<str>,
    rows: Vec<Arc<Resource>>,
}

/// A request for a discovery document.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscoveryRequest<'a> {
    /// The path, with or without a trailing slash.
    pub path: &'a str,
    /// The forms the client prefers.
    pub asked: AnswerPreferences<'a>,
    /// The `If-None-Match` header.
    pub if_none_match: Option<&'a str>,
    /// Host and port at which the client reached the server, if known.
    pub address: &'a str,
}

impl DiscoveryDocuments {
    /// Creates the documents for these rows. This is cheap: nothing is rendered yet.
    pub fn new(rows: &[Arc<Resource>]) -> Self {
        Self {
            groups: order::grouped(rows),
            core: AggregatedDocuments::default(),
            named: AggregatedDocuments::default(),
        }
    }

    /// Answers a GET below `/api` and `/apis` that names no resource. Returns `None` if there is no such document: the
    /// path belongs to a resource or is answered with a plain-text 404.
    pub fn answer(&self, request: &DiscoveryRequest<'_>) -> Option<Result<Response<Bytes>, Status>> {
        let mut parts = request.path.trim_matches('/').split('/');
        match (parts.next()?, parts.next(), parts.next(), parts.next()) {
            ("api", None, ..) => Some(self.entry(request, true)),
            ("apis", None, ..) => Some(self.entry(request, false)),
            ("api", Some(version), None, _) => Some(
                self.resources("", version)
                    .ok_or_else(Status::no_such_resource)
                    .and_then(|list| plain(request, &list)),
            ),
            ("apis", Some(group), None, _) => Some(plain(request, &self.group(group)?)),
            ("apis", Some(group), Some(version), None) => self.version(request, group, version),
            _ => None,
        }
    }

    /// Returns whether the group is served.
    pub fn has_group(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns whether the group has a built-in resource. Unknown versions of such a group are rejected with a
    /// `Status`; those of custom groups, and unknown groups, with plain text.
    pub fn is_built_in(&self, group: &str) -> bool {
        self.find(group).is_some_and(ServedGroup::is_built_in)
    }

    /// Returns the paths that `/` lists.
    pub fn paths(&self) -> Value {
        root::paths(&self.groups)
    }

    /// Returns the APIService objects that stand for the served versions.
    pub fn api_services(&self) -> Vec<Value> {
        root::api_services(&self.groups)
    }

    /// Returns the `APIGroup` of this name.
    pub fn group(&self, name: &str) -> Option<Value> {
        self.find(name).filter(|group| !group.name.is_empty()).map(legacy::group)
    }

    /// Returns the `APIResourceList` of this group and version.
    pub fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let found = self.find(group)?.versions.iter().find(|one| &*one.name == version)?;
        Some(legacy::resources(group, found))
    }

    /// Returns the aggregated document of the core group, or of all others.
    pub fn aggregated(&self, is_core: bool, version: DiscoveryVersion) -> &TaggedDocument {
        let cached = if is_core { &self.core } else { &self.named };
        let cached = match version {
            DiscoveryVersion::V2 => &cached.v2,
            DiscoveryVersion::V2Beta1 => &cached.v2beta1,
        };
        cached.get_or_init(|| {
            let groups = self.groups.iter().filter(|group| group.name.is_empty() == is_core);
            aggregated::document(groups, version)
        })
    }

    fn entry(&self, request: &DiscoveryRequest<'_>, is_core: bool) -> Result<Response<Bytes>, Status> {
        match negotiate::discovery(&request.asked)? {
            DiscoveryForm::Aggregated(version) => {
                Ok(self.aggregated(is_core, version).answer(version, request.if_none_match))
            }
            DiscoveryForm::Plain(form) if is_core => {
                Ok(encoded(&legacy::api_versions(request.address), form))
            }
            DiscoveryForm::Plain(form) => Ok(encoded(&legacy::groups(&self.groups), form)),
        }
    }

    fn version(
        &self,
        request: &DiscoveryRequest<'_>,
        group: &str,
        version: &str,
    ) -> Option<Result<Response<Bytes>, Status>> {
        match self.resources(group, version) {
            Some(list) => Some(plain(request, &list)),
            None if self.is_built_in(group) => Some(Err(Status::no_such_resource())),
            None => None,
        }
    }

    fn find(&self, name: &str) -> Option<&ServedGroup> {
        self.groups.iter().find(|group| &*group.name == name)
    }
}

impl ServedGroup {
    fn is_built_in(&self) -> bool {
        self.versions.iter().flat_map(|version| &version.rows).any(|row| !row.is_custom())
    }
}

/// Returns `v1` or `apps/v1`.
fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn plain(request: &DiscoveryRequest<'_>, document: &Value) -> Result<Response<Bytes>, Status> {
    let endpoint = EndpointForms { forms: OfferedForms::Plain, is_custom: false, is_collection: false };
    negotiate::representation(&request.asked, endpoint).map(|form| encoded(document, form))
}

fn bytes(document: &Value, form: Representation) -> Vec<u8> {
    if form.media == AnswerEncoding::Yaml {
        return negotiate::encode(document, &form);
    }
    negotiate::json(&field_order::in_field_order(document), form.pretty)
}

fn encoded(document: &Value, form: Representation) -> Response<Bytes> {
    let binary = (form.media == AnswerEncoding::Protobuf).then(|| protobuf::encode(document)).flatten();
    let (media, body) = match binary {
        Some(body) => (protobuf::CONTENT_TYPE, body),
        None => (form.media.content_type(), bytes(document, form)),
    };
    Response::builder()
        .status(StatusCode::OK)
        .header(header::CONTENT_TYPE, media)
        .body(body.into())
        .expect("constant headers are valid")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{CustomKind, KindSource, Subresource};

    fn custom(group: &str, version: &str) -> Arc<Resource> {
        let verbs = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        Arc::new(Resource {
            group: group.into(),
            version: version.into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            kind: "Widget".into(),
            list_kind: Box::default(),
            namespaced: true,
            verbs: verbs.map(Into::into).into(),
            short_names: vec!["wd".into()],
            categories: Vec::new(),
            subresources: vec![Subresource {
                name: "status".into(),
                kind: "Widget".into(),
                group: Box::default(),
                version: Box::default(),
                verbs: ["get", "patch", "update"].map(Into::into).into(),
            }],
            source: KindSource::Custom(Arc::new(CustomKind {
                has_status: true,
                storage_version: "v1".into(),
                ..CustomKind::default()
            })),
            interested_plugins: std::sync::OnceLock::new(),
        })
    }

    fn documents() -> DiscoveryDocuments {
        let built_in = crate::kinds::built_in_rows().into_iter().map(Arc::new);
        let rows: Vec<_> = ["v1alpha1", "v10", "v1", "v2beta1"]
            .map(|version| custom("b.example.test", version))
            .into_iter()
            .chain([custom("a.example.test", "v1")])
            .chain(built_in)
            .collect();
        DiscoveryDocuments::new(&rows)
    }

    fn get(path: &str, accept: &str) -> (u16, String, Value) {
        let asked = AnswerPreferences { accept: Some(accept), ..AnswerPreferences::default() };
        let documents = documents();
        let request = DiscoveryRequest { path, asked, ..DiscoveryRequest::default() };
        let answer = match documents.answer(&request) {
            None => return (404, "text/plain".into(), Value::Null),
            Some(Err(status)) => return (status.code, "application/json".into(), status.to_json()),
            Some(Ok(answer)) => answer,
        };
        let kind = answer.headers()[header::CONTENT_TYPE].to_str().expect("is text").to_owned();
        let code = answer.status().as_u16();
        let bytes = answer.into_body();
        (code, kind, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

    #[test]
    fn groups_come_by_priority_and_custom_ones_last() {
        let (_, _, list) = get("/apis/", "application/json");
        let names: Vec<_> = list["groups"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|group| group["name"].as_str().unwrap())
            .collect();
        assert_eq!(names[..4], ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]);
        assert_eq!(
            names[names.len() - 3..],
            ["flowcontrol.apiserver.k8s.io", "a.example.test", "b.example.test"]
        );
        let versions = list["groups"][names.len() - 1]["versions"].as_array().expect("a list");
        let versions: Vec<_> = versions.iter().map(|version| version["version"].as_str().unwrap()).collect();
        assert_eq!(versions, ["v10", "v1", "v2beta1", "v1alpha1"]);
    }

    #[test]
    fn old_documents_are_as_recorded() {
        let (_, kind, group) = get("/apis/apps", &format!("{V2},application/json"));
        assert_eq!(kind, "application/json");
        assert_eq!(
            group,
            json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps",
                "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}})
        );
        let (_, _, list) = get("/apis/events.k8s.io/v1", "application/json");
        assert_eq!(
            list,
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "events.k8s.io/v1", "resources": [
                {"name": "events", "singularName": "event", "namespaced": true, "kind": "Event",
                 "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                 "shortNames": ["ev"], "storageVersionHash": "r2yiGXH7wu8="}]})
        );
        let (_, _, versions) = get("/api", "application/json");
        assert_eq!((&versions["kind"], &versions["versions"]), (&json!("APIVersions"), &json!(["v1"])));
        assert_eq!(versions.get("apiVersion"), None);
    }

    #[test]
    fn subresources_follow_their_resource_and_name_a_foreign_kind() {
        let (_, _, list) = get("/apis/apps/v1", "application/json");
        let names: Vec<_> = list["resources"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert!(names.is_sorted(), "{names:?}");
        let scale = list["resources"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|one| one["name"] == "deployments/scale");
        assert_eq!(
            scale,
            Some(&json!({"name": "deployments/scale", "singularName": "", "namespaced": true,
                "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]}))
        );
    }

    #[test]
    fn the_aggregated_document_is_as_recorded() {
        let (_, kind, core) = get("/api", &format!("{V2},application/json"));
        assert_eq!(kind, V2);
        assert_eq!(
            (&core["kind"], &core["apiVersion"]),
            (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
        );
        assert_eq!(core["items"][0]["metadata"], json!({}));
        let version = &core["items"][0]["versions"][0];
        assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
        let accounts = version["resources"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|one| one["resource"] == "serviceaccounts");
        assert_eq!(
            accounts,
            Some(
                &json!({"resource": "serviceaccounts", "responseKind": {"group": "", "version": "", "kind": "ServiceAccount"},
                "scope": "Namespaced", "singularResource": "serviceaccount", "shortNames": ["sa"],
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
                "subresources": [{"subresource": "token", "verbs": ["create"],
                    "responseKind": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}}]})
            )
        );
    }

    #[test]
    fn custom_kinds_say_their_kind_in_full() {
        let (_, _, all) = get("/apis", V2);
        let group = all["items"].as_array().expect("a list").last().expect("not empty");
        let widgets = &group["versions"][0]["resources"][0];
        assert_eq!(
            widgets["responseKind"],
            json!({"group": "b.example.test", "version": "v10", "kind": "Widget"})
        );
        assert_eq!(widgets["subresources"][0]["responseKind"], widgets["responseKind"]);
        let (_, _, list) = get("/apis/a.example.test/v1", "application/json");
        assert_eq!(list["resources"][0]["storageVersionHash"].as_str().map(str::len), Some(12));
    }

    #[test]
    fn what_is_missing_is_refused_as_recorded() {
        assert_eq!(get("/apis/nope.oracle.test", "*/*").0, 404);
        let missing = Status::no_such_resource().to_json();
        assert_eq!(get("/apis/apps/v9", "*/*").2, missing);
        assert_eq!(get("/api/v2", "*/*").2, missing);
        assert_eq!(get("/apis/a.example.test/v9", "*/*").1, "text/plain");
        assert_eq!(
            get("/api", "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList").0,
            406
        );
    }

    #[test]
    fn an_unchanged_document_is_not_sent_again() {
        let documents = documents();
        let asked = AnswerPreferences { accept: Some(V2), ..AnswerPreferences::default() };
        let request = DiscoveryRequest { path: "/apis", asked, ..DiscoveryRequest::default() };
        let first = documents.answer(&request).expect("is served").expect("is acceptable");
        let tag = first.headers()[header::ETAG].to_str().expect("is text");
        assert_eq!((tag.len(), first.headers()[header::CACHE_CONTROL].to_str().unwrap()), (130, "public"));
        let request = DiscoveryRequest { if_none_match: Some(tag), ..request };
        let second = documents.answer(&request).expect("is served").expect("is acceptable");
        assert_eq!(second.status(), StatusCode::NOT_MODIFIED);
    }
}
