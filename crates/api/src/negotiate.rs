//! Implements content negotiation: the form and encoding of responses, and the type of request bodies.
//!
//! **Invariant:** these are pure functions of header and query text; the common cases (no `Accept`, or plain
//! `application/json`) allocate nothing. Protobuf is a preference that the caller honours where it can: clients that
//! prefer it also read JSON, so [`encode`] and [`AnswerEncoding::content_type`] fall back to JSON. A protobuf request
//! body is reported to the caller, which knows whether it can be decoded.

mod accept;
mod content;
mod query;

use serde::Serialize;
use serde_json::Value;

use self::accept::{AcceptClause, clauses};
pub use self::content::{BodyEncoding, PatchType, body_encoding, patch_type, unsupported_body};
pub use self::query::{has_broken_escape, parameter, parameters};
use crate::status::{self, Status};

/// The media types that kube-apiserver lists when it rejects a request.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The media types that it lists when it rejects a watch.
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// The media types that the router of built-in kinds lists for endpoints that also support watches.
const MEDIA_AND_STREAM_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                                      application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// Programs whose users read the raw response.
const HUMAN_AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// The parts of a request that say which response it prefers.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerPreferences<'a> {
    /// The `Accept` header.
    pub accept: Option<&'a str>,
    /// The raw query.
    pub query: &'a str,
    /// The `User-Agent` header.
    pub user_agent: Option<&'a str>,
}

/// The forms that an endpoint offers.
#[derive(Clone, Copy, Debug)]
pub struct EndpointForms {
    /// The forms besides the object itself.
    pub forms: OfferedForms,
    /// Whether the kind is defined by a CustomResourceDefinition. Custom kinds are routed less strictly.
    pub is_custom: bool,
    /// Whether it is a collection that can be watched.
    pub is_collection: bool,
}

/// The forms that an endpoint offers besides the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferedForms {
    /// None: discovery documents.
    Plain,
    /// Metadata only: kinds that cannot be printed, such as reviews and tokens.
    Metadata,
    /// Metadata and tables.
    All,
}

/// The negotiated form and encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation {
    /// The form of the object.
    pub form: ObjectForm,
    /// The encoding.
    pub media: AnswerEncoding,
    /// Whether the response is indented so that people can read it.
    pub pretty: bool,
}

impl Default for Representation {
    /// Returns plain JSON.
    fn default() -> Self {
        Self { form: ObjectForm::Object, media: AnswerEncoding::Json, pretty: false }
    }
}

/// The form of an object in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectForm {
    /// The object as it is.
    Object,
    /// A `Table`, as `kubectl get` prints it.
    Table {
        /// Version of the Table type.
        version: MetaVersion,
        /// The part of the object that each row carries besides its cells.
        include: IncludedObject,
    },
    /// A `PartialObjectMetadata`.
    Partial(MetaVersion),
    /// A `PartialObjectMetadataList`.
    PartialList(MetaVersion),
}

/// A version of the group `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

/// The part of an object that a table row carries besides its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludedObject {
    /// Nothing.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEncoding {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// The client prefers protobuf; JSON is acceptable.
    Protobuf,
}

/// The form of the response at `/api` and `/apis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryForm {
    /// All groups with all their resources in one document.
    Aggregated(DiscoveryVersion),
    /// The unaggregated list.
    Plain(Representation),
}

/// A version of the group `apidiscovery.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryVersion {
    /// `v2`.
    V2,
    /// `v2beta1`, for clients before 1.30.
    V2Beta1,
}

impl MetaVersion {
    /// Returns `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }

    fn of(group: &str, version: &str) -> Option<Self> {
        match (group, version) {
            ("meta.k8s.io", "v1") => Some(Self::V1),
            ("meta.k8s.io", "v1beta1") => Some(Self::V1Beta1),
            _ => None,
        }
    }
}

impl AnswerEncoding {
    /// Returns the `Content-Type` of the response.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Protobuf => "application/json",
            Self::Yaml => "application/yaml",
        }
    }

    const OFFERED: [(Self, &'static str); 3] =
        [(Self::Json, "json"), (Self::Yaml, "yaml"), (Self::Protobuf, "vnd.kubernetes.protobuf")];
}

/// Negotiates the form and encoding of a response.
pub fn representation(
    asked: &AnswerPreferences<'_>,
    endpoint: EndpointForms,
) -> Result<Representation, Status> {
    let plain = |pretty| Representation { form: ObjectForm::Object, media: AnswerEncoding::Json, pretty };
    let Some(accept) = asked.accept.filter(|accept| !accept.is_empty() && *accept != "application/json")
    else {
        return Ok(plain(asked.is_pretty()));
    };
    if !endpoint.is_custom && !is_routable(accept) {
        let available = if endpoint.is_collection { MEDIA_AND_STREAM_TYPES } else { MEDIA_TYPES };
        return Err(Status::not_routable(available));
    }
    let chosen = clauses(accept).iter().find_map(|clause| choose(clause, endpoint));
    let Some((form, media, pretty)) = chosen else { return Err(Status::not_acceptable(MEDIA_TYPES)) };
    let form = match form {
        ObjectForm::Table { version, .. } => ObjectForm::Table { version, include: include(asked.query)? },
        form => form,
    };
    Ok(Representation { form, media, pretty: pretty || asked.is_pretty() })
}

/// Negotiates the encoding of a watch: events cannot be streamed as YAML. A client that also reads JSON gets JSON,
/// which is sent as stored and shared by all watchers; Kubernetes would stream protobuf.
pub fn watch_representation(
    asked: &AnswerPreferences<'_>,
    endpoint: EndpointForms,
) -> Result<Representation, Status> {
    match representation(asked, endpoint)? {
        Representation { media: AnswerEncoding::Yaml, .. } => Err(Status::not_acceptable(STREAM_TYPES)),
        chosen @ Representation { media: AnswerEncoding::Protobuf, .. } if prefers(asked.accept, "json") => {
            Ok(Representation { media: AnswerEncoding::Json, ..chosen })
        }
        chosen => Ok(chosen),
    }
}

/// Negotiates the form of the response at `/api` and `/apis`: any clause that asks for the aggregated form wins.
pub fn discovery(asked: &AnswerPreferences<'_>) -> Result<DiscoveryForm, Status> {
    let aggregated = |clause: &AcceptClause<'_>| match (clause.get("g")?, clause.get("v")?, clause.get("as")?)
    {
        ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => Some(DiscoveryVersion::V2),
        ("apidiscovery.k8s.io", "v2beta1", "APIGroupDiscoveryList") => Some(DiscoveryVersion::V2Beta1),
        _ => None,
    };
    let version = asked.accept.and_then(|accept| clauses(accept).iter().find_map(aggregated));
    if let Some(version) = version {
        return Ok(DiscoveryForm::Aggregated(version));
    }
    let endpoint = EndpointForms { forms: OfferedForms::Plain, is_custom: false, is_collection: false };
    representation(asked, endpoint).map(DiscoveryForm::Plain)
}

/// Encodes a value in the negotiated form. Stored objects need this only for YAML and indented JSON.
pub fn encode(value: &Value, representation: &Representation) -> Vec<u8> {
    match representation.media {
        AnswerEncoding::Yaml => {
            serde_saphyr::to_string(value).expect("JSON values are YAML values").into_bytes()
        }
        AnswerEncoding::Json | AnswerEncoding::Protobuf => match status::ordered(value) {
            Some(status) => json(&status, representation.pretty),
            None => json(value, representation.pretty),
        },
    }
}

/// Returns the value as JSON: on one line, or pretty-printed.
pub(crate) fn json(value: &impl Serialize, is_pretty: bool) -> Vec<u8> {
    if is_pretty {
        return serde_json::to_vec_pretty(value).expect("JSON values can be written");
    }
    let mut bytes = serde_json::to_vec(value).expect("JSON values can be written");
    bytes.push(b'\n');
    bytes
}

/// Returns whether the client prefers `application/<subtype>` to JSON; for JSON itself, whether it accepts JSON at
/// all.
pub fn prefers(accept: Option<&str>, subtype: &str) -> bool {
    let Some(accept) = accept.filter(|accept| !accept.is_empty()) else { return subtype == "json" };
    let clauses = clauses(accept);
    if subtype == "json" {
        return clauses.iter().any(|clause| clause.matches("json"));
    }
    clauses.iter().find_map(|clause| {
        if clause.matches("json") { Some(false) } else { clause.matches(subtype).then_some(true) }
    }) == Some(true)
}

impl AnswerPreferences<'_> {
    /// Returns whether a person reads the response: the query says so, or the user agent suggests it.
    fn is_pretty(&self) -> bool {
        if self.query.contains("pretty")
            && let Some(pretty) = parameter(self.query, "pretty").filter(|pretty| !pretty.is_empty())
        {
            return matches!(&*pretty, "1" | "t" | "T" | "true" | "TRUE" | "True");
        }
        self.user_agent.is_some_and(|agent| HUMAN_AGENTS.iter().any(|human| agent.starts_with(human)))
    }
}

/// Returns whether the router of built-in kinds accepts the header. It knows `*/*` and whole type names, and ignores
/// quality.
fn is_routable(accept: &str) -> bool {
    accept.split(',').any(|clause| {
        let wanted = content::media_type(clause);
        wanted == "*/*" || MEDIA_TYPES.split(", ").any(|offered| offered == wanted)
    })
}

fn choose(clause: &AcceptClause<'_>, endpoint: EndpointForms) -> Option<(ObjectForm, AnswerEncoding, bool)> {
    if clause.get("stream").is_some_and(|stream| !matches!(stream, "" | "watch"))
        || clause.get("sv").is_some_and(|version| !version.is_empty())
    {
        return None;
    }
    let pretty = clause.get("pretty") == Some("1");
    let mut offered = AnswerEncoding::OFFERED.into_iter().filter(|(_, subtype)| clause.matches(subtype));
    offered.find_map(|(media, _)| form(clause, media, endpoint).map(|form| (form, media, pretty)))
}

fn form(clause: &AcceptClause<'_>, media: AnswerEncoding, endpoint: EndpointForms) -> Option<ObjectForm> {
    let (group, version, kind) = (clause.get("g"), clause.get("v"), clause.get("as"));
    if group.is_none() && version.is_none() && kind.is_none() {
        return (!endpoint.is_custom || media != AnswerEncoding::Protobuf).then_some(ObjectForm::Object);
    }
    let version = MetaVersion::of(group?, version?)?;
    match (kind?, endpoint.forms) {
        ("Table", OfferedForms::All) if media != AnswerEncoding::Protobuf => {
            Some(ObjectForm::Table { version, include: IncludedObject::Metadata })
        }
        ("PartialObjectMetadata", OfferedForms::Metadata | OfferedForms::All) => {
            Some(ObjectForm::Partial(version))
        }
        ("PartialObjectMetadataList", OfferedForms::Metadata | OfferedForms::All) => {
            Some(ObjectForm::PartialList(version))
        }
        _ => None,
    }
}

fn include(query: &str) -> Result<IncludedObject, Status> {
    match parameter(query, "includeObject").as_deref() {
        None | Some("" | "Metadata") => Ok(IncludedObject::Metadata),
        Some("Object") => Ok(IncludedObject::Object),
        Some("None") => Ok(IncludedObject::None),
        Some(other) => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
             'Object', 'None', or empty"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: EndpointForms =
        EndpointForms { forms: OfferedForms::All, is_custom: false, is_collection: false };
    const CUSTOM: EndpointForms = EndpointForms { is_custom: true, ..BUILT_IN };
    const REVIEW: EndpointForms = EndpointForms { forms: OfferedForms::Metadata, ..BUILT_IN };
    const KUBECTL_GET: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                               application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    const TABLE: ObjectForm =
        ObjectForm::Table { version: MetaVersion::V1, include: IncludedObject::Metadata };
    const ONLY: &str = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";
    const ROUTER: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                          application/vnd.kubernetes.protobuf";

    #[track_caller]
    fn check(accept: &str, endpoint: EndpointForms, expected: Result<(ObjectForm, AnswerEncoding), &str>) {
        let asked = AnswerPreferences { accept: Some(accept), ..AnswerPreferences::default() };
        let got = representation(&asked, endpoint).map(|got| (got.form, got.media));
        assert_eq!(got.map_err(|status| status.message), expected.map_err(str::to_owned), "{accept}");
    }

    #[test]
    fn plain_answers_are_chosen_as_recorded() {
        let json = Ok((ObjectForm::Object, AnswerEncoding::Json));
        check("", BUILT_IN, json);
        check("application/json", BUILT_IN, json);
        check("*/*", BUILT_IN, json);
        check("application/json; charset=utf-8", BUILT_IN, json);
        check("application/xml;q=0.9, application/json;q=0.1", BUILT_IN, json);
        check("application/yaml", BUILT_IN, Ok((ObjectForm::Object, AnswerEncoding::Yaml)));
        check(
            "application/vnd.kubernetes.protobuf",
            BUILT_IN,
            Ok((ObjectForm::Object, AnswerEncoding::Protobuf)),
        );
        check(
            "application/vnd.kubernetes.protobuf, */*",
            BUILT_IN,
            Ok((ObjectForm::Object, AnswerEncoding::Protobuf)),
        );
        check("application/*", BUILT_IN, Err(ROUTER));
        check("application/xml", BUILT_IN, Err(ROUTER));
        check("text/html", BUILT_IN, Err(ROUTER));
    }

    #[test]
    fn custom_kinds_have_no_router_in_front_and_no_protobuf() {
        check("application/*", CUSTOM, Ok((ObjectForm::Object, AnswerEncoding::Json)));
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            CUSTOM,
            Ok((ObjectForm::Object, AnswerEncoding::Json)),
        );
        check("application/vnd.kubernetes.protobuf", CUSTOM, Err(ONLY));
        check("text/html", CUSTOM, Err(ONLY));
    }

    #[test]
    fn transformed_answers_are_chosen_as_recorded() {
        check(KUBECTL_GET, BUILT_IN, Ok((TABLE, AnswerEncoding::Json)));
        check(KUBECTL_GET, REVIEW, Ok((ObjectForm::Object, AnswerEncoding::Json)));
        check("application/json;as=Table;v=v1;g=meta.k8s.io", REVIEW, Err(ONLY));
        check("application/json;as=Chart;v=v1;g=meta.k8s.io", BUILT_IN, Err(ONLY));
        check("application/json;as=Table;v=v7;g=meta.k8s.io", BUILT_IN, Err(ONLY));
        check("application/json;as=Table;v=v1;g=example.test", BUILT_IN, Err(ONLY));
        check("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", BUILT_IN, Err(ONLY));
        let fallback = "application/json;as=Chart;v=v1;g=meta.k8s.io,application/json";
        check(fallback, BUILT_IN, Ok((ObjectForm::Object, AnswerEncoding::Json)));
        let informer = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        check(informer, CUSTOM, Ok((ObjectForm::Partial(MetaVersion::V1), AnswerEncoding::Protobuf)));
        let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1";
        check(list, BUILT_IN, Ok((ObjectForm::PartialList(MetaVersion::V1Beta1), AnswerEncoding::Json)));
    }

    #[test]
    fn a_list_names_the_streams_too_and_yaml_is_no_stream() {
        let asked = AnswerPreferences { accept: Some("application/xml"), ..AnswerPreferences::default() };
        let list = EndpointForms { is_collection: true, ..BUILT_IN };
        let refusal = representation(&asked, list).expect_err("xml is refused").message;
        assert!(refusal.ends_with(MEDIA_AND_STREAM_TYPES), "{refusal}");
        let yaml = AnswerPreferences { accept: Some("application/yaml"), ..AnswerPreferences::default() };
        let refusal = watch_representation(&yaml, list).expect_err("yaml is refused");
        assert_eq!(refusal, Status::not_acceptable(STREAM_TYPES));
        let media = |accept| {
            let asked = AnswerPreferences { accept: Some(accept), ..AnswerPreferences::default() };
            watch_representation(&asked, list).map(|chosen| chosen.media)
        };
        assert_eq!(media("application/vnd.kubernetes.protobuf, */*"), Ok(AnswerEncoding::Json));
        assert_eq!(media("application/vnd.kubernetes.protobuf;stream=watch"), Ok(AnswerEncoding::Protobuf));
    }

    #[test]
    fn what_rows_include_is_said_in_the_query() {
        let included = |query| {
            let asked = AnswerPreferences { accept: Some(KUBECTL_GET), query, user_agent: None };
            match representation(&asked, BUILT_IN).map_err(|status| status.message)?.form {
                ObjectForm::Table { include, .. } => Ok(include),
                other => Err(format!("{other:?}")),
            }
        };
        assert_eq!(included("limit=500"), Ok(IncludedObject::Metadata));
        assert_eq!(included("limit=500&includeObject=Object"), Ok(IncludedObject::Object));
        assert_eq!(included("includeObject=%4eone"), Ok(IncludedObject::None));
        let refusal = "Unable to convert to Table as requested: includeObject: Invalid value: \"Everything\": must be \
                       'Metadata', 'Object', 'None', or empty";
        assert_eq!(included("includeObject=Everything"), Err(refusal.to_owned()));
    }

    #[test]
    fn people_get_indented_answers() {
        let pretty =
            |query, agent| AnswerPreferences { accept: None, query, user_agent: Some(agent) }.is_pretty();
        assert!(pretty("pretty=true", "kubectl/v1.32") && pretty("", "curl/8.0") && pretty("", "Wget/1"));
        assert!(!pretty("", "kubectl/v1.32") && !pretty("pretty=false", "curl/8.0"));
        assert!(pretty("pretty", "Mozilla/5.0 (X11)") && !pretty("pretty=perhaps", "curl/8"));
    }

    #[test]
    fn discovery_is_aggregated_whenever_a_clause_asks_for_it() {
        let decide = |accept: &str| {
            discovery(&AnswerPreferences { accept: Some(accept), ..AnswerPreferences::default() })
        };
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert_eq!(decide(v2), Ok(DiscoveryForm::Aggregated(DiscoveryVersion::V2)));
        assert_eq!(decide(&format!("{v2},{beta},application/json")), decide(v2));
        assert_eq!(decide(&format!("{beta},application/json")), decide(beta));
        let plain = Representation { form: ObjectForm::Object, media: AnswerEncoding::Json, pretty: false };
        assert_eq!(decide("application/json"), Ok(DiscoveryForm::Plain(plain)));
        let unknown = decide("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList");
        assert_eq!(unknown.map_err(|status| status.code), Err(406));
    }

    #[test]
    fn yaml_reads_as_kubernetes_writes_it() {
        let value = serde_json::json!({"metadata": {"name": "a", "k": "1"}, "items": [{"a": true}], "e": {}});
        let yaml = Representation { form: ObjectForm::Object, media: AnswerEncoding::Yaml, pretty: false };
        let text = String::from_utf8(encode(&value, &yaml)).expect("YAML is text");
        assert_eq!(text, "e: {}\nitems:\n- a: true\nmetadata:\n  k: \"1\"\n  name: a\n");
    }
}
