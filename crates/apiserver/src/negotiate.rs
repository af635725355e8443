//! Content negotiation: what a client wants an answer to look like, and what the body it sends is.
//!
//! **Invariant:** pure functions of header and query text; the common cases (no `Accept`, or plain
//! `application/json`) allocate nothing. Protobuf is a wish the caller grants where it can: its clients
//! read JSON too, so [`encode`] and [`Media::content_type`] stand in with JSON. As a request body it is reported to the
//! caller, who knows whether it can be decoded.

mod accept;
mod content;
mod query;

use serde::Serialize;
use serde_json::Value;

use self::accept::{Clause, clauses};
pub use self::content::{Encoding, PatchType, body_encoding, patch_type, unsupported_body};
pub(crate) use self::query::{has_broken_escape, parameter, parameters};
use crate::status::{self, Status};

/// What kube-apiserver lists in its refusals.
const MEDIA_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The same for watches.
const STREAM_TYPES: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// What a router of built-in kinds lists where a watch is possible too.
const MEDIA_AND_STREAM_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, \
                                      application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// Programs whose users read the answer with their own eyes.
const HUMAN_AGENTS: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// What a request says about the answer it wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The `Accept` header.
    pub accept: Option<&'a str>,
    /// The raw query.
    pub query: &'a str,
    /// The `User-Agent` header.
    pub user_agent: Option<&'a str>,
}

/// What an endpoint can offer.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// Which forms beside the object itself.
    pub forms: Forms,
    /// Is the kind defined by a CustomResourceDefinition? Those are routed less strictly.
    pub is_custom: bool,
    /// Is it a collection that can be watched?
    pub is_collection: bool,
}

/// Which forms an endpoint offers beside the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forms {
    /// None: discovery documents.
    Plain,
    /// Metadata only: kinds that cannot be printed, as reviews and tokens.
    Metadata,
    /// Metadata and tables.
    All,
}

/// How to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Representation {
    /// Which form of the object.
    pub form: Form,
    /// Which encoding.
    pub media: Media,
    /// Indented for people?
    pub pretty: bool,
}

impl Default for Representation {
    /// Plain JSON.
    fn default() -> Self {
        Self { form: Form::Object, media: Media::Json, pretty: false }
    }
}

/// The form of an object in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    Object,
    /// A `Table`, as `kubectl get` prints it.
    Table {
        /// Version of the Table type.
        version: MetaVersion,
        /// What each row carries beside its cells.
        include: Include,
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

/// What a row of a table carries beside its cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// The metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf is preferred; JSON will do.
    Protobuf,
}

/// How to answer on `/api` and `/apis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// All groups with all their resources in one document.
    Aggregated(DiscoveryVersion),
    /// The plain list.
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
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
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

impl Media {
    /// The `Content-Type` of the answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Protobuf => "application/json",
            Self::Yaml => "application/yaml",
        }
    }

    const OFFERED: [(Self, &'static str); 3] =
        [(Self::Json, "json"), (Self::Yaml, "yaml"), (Self::Protobuf, "vnd.kubernetes.protobuf")];
}

/// Decides how to answer.
pub fn representation(asked: &Asked<'_>, endpoint: Endpoint) -> Result<Representation, Status> {
    let plain = |pretty| Representation { form: Form::Object, media: Media::Json, pretty };
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
        Form::Table { version, .. } => Form::Table { version, include: include(asked.query)? },
        form => form,
    };
    Ok(Representation { form, media, pretty: pretty || asked.is_pretty() })
}

/// Decides how to answer a watch: events cannot be streamed as YAML. Whoever reads JSON too gets JSON, which is stored as
/// it is sent and shared by all watchers; Kubernetes would stream protobuf.
pub fn watch_representation(asked: &Asked<'_>, endpoint: Endpoint) -> Result<Representation, Status> {
    match representation(asked, endpoint)? {
        Representation { media: Media::Yaml, .. } => Err(Status::not_acceptable(STREAM_TYPES)),
        chosen @ Representation { media: Media::Protobuf, .. } if prefers(asked.accept, "json") => {
            Ok(Representation { media: Media::Json, ..chosen })
        }
        chosen => Ok(chosen),
    }
}

/// Decides how to answer on `/api` and `/apis`: any clause that asks for the aggregated form wins.
pub fn discovery(asked: &Asked<'_>) -> Result<Discovery, Status> {
    let aggregated = |clause: &Clause<'_>| match (clause.get("g")?, clause.get("v")?, clause.get("as")?) {
        ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") => Some(DiscoveryVersion::V2),
        ("apidiscovery.k8s.io", "v2beta1", "APIGroupDiscoveryList") => Some(DiscoveryVersion::V2Beta1),
        _ => None,
    };
    let version = asked.accept.and_then(|accept| clauses(accept).iter().find_map(aggregated));
    if let Some(version) = version {
        return Ok(Discovery::Aggregated(version));
    }
    let endpoint = Endpoint { forms: Forms::Plain, is_custom: false, is_collection: false };
    representation(asked, endpoint).map(Discovery::Plain)
}

/// Encodes a value as decided. Objects that are stored bytes already need this only for YAML and pretty JSON.
pub fn encode(value: &Value, representation: &Representation) -> Vec<u8> {
    match representation.media {
        Media::Yaml => serde_saphyr::to_string(value).expect("JSON values are YAML values").into_bytes(),
        Media::Json | Media::Protobuf => match status::ordered(value) {
            Some(status) => json(&status, representation.pretty),
            None => json(value, representation.pretty),
        },
    }
}

/// JSON text: a line, or indented for people.
pub(crate) fn json(value: &impl Serialize, is_pretty: bool) -> Vec<u8> {
    if is_pretty {
        return serde_json::to_vec_pretty(value).expect("JSON values can be written");
    }
    let mut bytes = serde_json::to_vec(value).expect("JSON values can be written");
    bytes.push(b'\n');
    bytes
}

/// Would the client take `application/` with this subtype before JSON? Asked about JSON itself: at all?
pub(crate) fn prefers(accept: Option<&str>, subtype: &str) -> bool {
    let Some(accept) = accept.filter(|accept| !accept.is_empty()) else { return subtype == "json" };
    let clauses = clauses(accept);
    if subtype == "json" {
        return clauses.iter().any(|clause| clause.matches("json"));
    }
    clauses.iter().find_map(|clause| {
        if clause.matches("json") { Some(false) } else { clause.matches(subtype).then_some(true) }
    }) == Some(true)
}

impl Asked<'_> {
    /// Does a person read this? Said in the query, or guessed from the program.
    fn is_pretty(&self) -> bool {
        if self.query.contains("pretty")
            && let Some(pretty) = parameter(self.query, "pretty").filter(|pretty| !pretty.is_empty())
        {
            return matches!(&*pretty, "1" | "t" | "T" | "true" | "TRUE" | "True");
        }
        self.user_agent.is_some_and(|agent| HUMAN_AGENTS.iter().any(|human| agent.starts_with(human)))
    }
}

/// The router of built-in kinds knows `*/*` and whole type names, and looks at no quality.
fn is_routable(accept: &str) -> bool {
    accept.split(',').any(|clause| {
        let wanted = content::media_type(clause);
        wanted == "*/*" || MEDIA_TYPES.split(", ").any(|offered| offered == wanted)
    })
}

fn choose(clause: &Clause<'_>, endpoint: Endpoint) -> Option<(Form, Media, bool)> {
    if clause.get("stream").is_some_and(|stream| !matches!(stream, "" | "watch"))
        || clause.get("sv").is_some_and(|version| !version.is_empty())
    {
        return None;
    }
    let pretty = clause.get("pretty") == Some("1");
    let mut offered = Media::OFFERED.into_iter().filter(|(_, subtype)| clause.matches(subtype));
    offered.find_map(|(media, _)| form(clause, media, endpoint).map(|form| (form, media, pretty)))
}

fn form(clause: &Clause<'_>, media: Media, endpoint: Endpoint) -> Option<Form> {
    let (group, version, kind) = (clause.get("g"), clause.get("v"), clause.get("as"));
    if group.is_none() && version.is_none() && kind.is_none() {
        return (!endpoint.is_custom || media != Media::Protobuf).then_some(Form::Object);
    }
    let version = MetaVersion::of(group?, version?)?;
    match (kind?, endpoint.forms) {
        ("Table", Forms::All) if media != Media::Protobuf => {
            Some(Form::Table { version, include: Include::Metadata })
        }
        ("PartialObjectMetadata", Forms::Metadata | Forms::All) => Some(Form::Partial(version)),
        ("PartialObjectMetadataList", Forms::Metadata | Forms::All) => Some(Form::PartialList(version)),
        _ => None,
    }
}

fn include(query: &str) -> Result<Include, Status> {
    match parameter(query, "includeObject").as_deref() {
        None | Some("" | "Metadata") => Ok(Include::Metadata),
        Some("Object") => Ok(Include::Object),
        Some("None") => Ok(Include::None),
        Some(other) => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be 'Metadata', \
             'Object', 'None', or empty"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT_IN: Endpoint = Endpoint { forms: Forms::All, is_custom: false, is_collection: false };
    const CUSTOM: Endpoint = Endpoint { is_custom: true, ..BUILT_IN };
    const REVIEW: Endpoint = Endpoint { forms: Forms::Metadata, ..BUILT_IN };
    const KUBECTL_GET: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,\
                               application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    const TABLE: Form = Form::Table { version: MetaVersion::V1, include: Include::Metadata };
    const ONLY: &str = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";
    const ROUTER: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                          application/vnd.kubernetes.protobuf";

    #[track_caller]
    fn check(accept: &str, endpoint: Endpoint, expected: Result<(Form, Media), &str>) {
        let asked = Asked { accept: Some(accept), ..Asked::default() };
        let got = representation(&asked, endpoint).map(|got| (got.form, got.media));
        assert_eq!(got.map_err(|status| status.message), expected.map_err(str::to_owned), "{accept}");
    }

    #[test]
    fn plain_answers_are_chosen_as_recorded() {
        let json = Ok((Form::Object, Media::Json));
        check("", BUILT_IN, json);
        check("application/json", BUILT_IN, json);
        check("*/*", BUILT_IN, json);
        check("application/json; charset=utf-8", BUILT_IN, json);
        check("application/xml;q=0.9, application/json;q=0.1", BUILT_IN, json);
        check("application/yaml", BUILT_IN, Ok((Form::Object, Media::Yaml)));
        check("application/vnd.kubernetes.protobuf", BUILT_IN, Ok((Form::Object, Media::Protobuf)));
        check("application/vnd.kubernetes.protobuf, */*", BUILT_IN, Ok((Form::Object, Media::Protobuf)));
        check("application/*", BUILT_IN, Err(ROUTER));
        check("application/xml", BUILT_IN, Err(ROUTER));
        check("text/html", BUILT_IN, Err(ROUTER));
    }

    #[test]
    fn custom_kinds_have_no_router_in_front_and_no_protobuf() {
        check("application/*", CUSTOM, Ok((Form::Object, Media::Json)));
        check(
            "application/vnd.kubernetes.protobuf,application/json",
            CUSTOM,
            Ok((Form::Object, Media::Json)),
        );
        check("application/vnd.kubernetes.protobuf", CUSTOM, Err(ONLY));
        check("text/html", CUSTOM, Err(ONLY));
    }

    #[test]
    fn transformed_answers_are_chosen_as_recorded() {
        check(KUBECTL_GET, BUILT_IN, Ok((TABLE, Media::Json)));
        check(KUBECTL_GET, REVIEW, Ok((Form::Object, Media::Json)));
        check("application/json;as=Table;v=v1;g=meta.k8s.io", REVIEW, Err(ONLY));
        check("application/json;as=Chart;v=v1;g=meta.k8s.io", BUILT_IN, Err(ONLY));
        check("application/json;as=Table;v=v7;g=meta.k8s.io", BUILT_IN, Err(ONLY));
        check("application/json;as=Table;v=v1;g=example.test", BUILT_IN, Err(ONLY));
        check("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", BUILT_IN, Err(ONLY));
        let fallback = "application/json;as=Chart;v=v1;g=meta.k8s.io,application/json";
        check(fallback, BUILT_IN, Ok((Form::Object, Media::Json)));
        let informer = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        check(informer, CUSTOM, Ok((Form::Partial(MetaVersion::V1), Media::Protobuf)));
        let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1";
        check(list, BUILT_IN, Ok((Form::PartialList(MetaVersion::V1Beta1), Media::Json)));
    }

    #[test]
    fn a_list_names_the_streams_too_and_yaml_is_no_stream() {
        let asked = Asked { accept: Some("application/xml"), ..Asked::default() };
        let list = Endpoint { is_collection: true, ..BUILT_IN };
        let refusal = representation(&asked, list).expect_err("xml is refused").message;
        assert!(refusal.ends_with(MEDIA_AND_STREAM_TYPES), "{refusal}");
        let yaml = Asked { accept: Some("application/yaml"), ..Asked::default() };
        let refusal = watch_representation(&yaml, list).expect_err("yaml is refused");
        assert_eq!(refusal, Status::not_acceptable(STREAM_TYPES));
        let media = |accept| {
            let asked = Asked { accept: Some(accept), ..Asked::default() };
            watch_representation(&asked, list).map(|chosen| chosen.media)
        };
        assert_eq!(media("application/vnd.kubernetes.protobuf, */*"), Ok(Media::Json));
        assert_eq!(media("application/vnd.kubernetes.protobuf;stream=watch"), Ok(Media::Protobuf));
    }

    #[test]
    fn what_rows_include_is_said_in_the_query() {
        let included = |query| {
            let asked = Asked { accept: Some(KUBECTL_GET), query, user_agent: None };
            match representation(&asked, BUILT_IN).map_err(|status| status.message)?.form {
                Form::Table { include, .. } => Ok(include),
                other => Err(format!("{other:?}")),
            }
        };
        assert_eq!(included("limit=500"), Ok(Include::Metadata));
        assert_eq!(included("limit=500&includeObject=Object"), Ok(Include::Object));
        assert_eq!(included("includeObject=%4eone"), Ok(Include::None));
        let refusal = "Unable to convert to Table as requested: includeObject: Invalid value: \"Everything\": must be \
                       'Metadata', 'Object', 'None', or empty";
        assert_eq!(included("includeObject=Everything"), Err(refusal.to_owned()));
    }

    #[test]
    fn people_get_indented_answers() {
        let pretty = |query, agent| Asked { accept: None, query, user_agent: Some(agent) }.is_pretty();
        assert!(pretty("pretty=true", "kubectl/v1.32") && pretty("", "curl/8.0") && pretty("", "Wget/1"));
        assert!(!pretty("", "kubectl/v1.32") && !pretty("pretty=false", "curl/8.0"));
        assert!(pretty("pretty", "Mozilla/5.0 (X11)") && !pretty("pretty=perhaps", "curl/8"));
    }

    #[test]
    fn discovery_is_aggregated_whenever_a_clause_asks_for_it() {
        let decide = |accept: &str| discovery(&Asked { accept: Some(accept), ..Asked::default() });
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert_eq!(decide(v2), Ok(Discovery::Aggregated(DiscoveryVersion::V2)));
        assert_eq!(decide(&format!("{v2},{beta},application/json")), decide(v2));
        assert_eq!(decide(&format!("{beta},application/json")), decide(beta));
        let plain = Representation { form: Form::Object, media: Media::Json, pretty: false };
        assert_eq!(decide("application/json"), Ok(Discovery::Plain(plain)));
        let unknown = decide("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList");
        assert_eq!(unknown.map_err(|status| status.code), Err(406));
    }

    #[test]
    fn yaml_reads_as_kubernetes_writes_it() {
        let value = serde_json::json!({"metadata": {"name": "a", "k": "1"}, "items": [{"a": true}], "e": {}});
        let yaml = Representation { form: Form::Object, media: Media::Yaml, pretty: false };
        let text = String::from_utf8(encode(&value, &yaml)).expect("YAML is text");
        assert_eq!(text, "e: {}\nitems:\n- a: true\nmetadata:\n  k: \"1\"\n  name: a\n");
    }
}
