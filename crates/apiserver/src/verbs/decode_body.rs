//! Decodes a body into an object of the right kind, without unknown fields and with defaults.

use std::collections::HashSet;

use homeostat_api::decode::{self, DuplicateKeyReport};
use homeostat_api::field;
use homeostat_api::metadata::validate::finalizer_warnings;
use homeostat_api::negotiate::{self, BodyEncoding};
use homeostat_api::protobuf;
use homeostat_api::resource::Resource;
use homeostat_api::schema;
use homeostat_api::status::Status;
use serde_json::Value;

use super::AuthorizedRequest;
use super::options::Strictness;
use super::patched_type;
use super::pipeline::ObjectDraft;
use crate::normalize_object::normalize;

/// The file in which Kubernetes registers its types, as named in its refusals.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// The beginning of the refusal for a configuration that is not YAML, and the stage in which this is detected.
const NOT_YAML: &str = "error decoding YAML: ";
const CONVERTING: &str = "error converting YAML to JSON: ";

/// Decodes the object in a request body.
pub(super) fn decode_object(
    call: &AuthorizedRequest,
    bytes: &[u8],
    strictness: Strictness,
) -> Result<ObjectDraft, Status> {
    let resource = &call.resource;
    let wants_duplicates = strictness != Strictness::Ignore;
    let mut decoded = read_body(call, bytes, wants_duplicates, (&resource.api_version(), &resource.kind))?;
    let mut object = std::mem::take(&mut decoded.value);
    if resource.is_custom() && object["kind"].as_str().unwrap_or_default().is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(bytes));
        return Err(decode::unrecognized(bytes, &resource.kind, &why));
    }
    check_type(&call.resource, &mut object).map_err(|status| {
        let is_warned =
            strictness == Strictness::Warn && patched_type::is_other_version(&call.resource, &object);
        if is_warned { status.warned(patched_type::drop_unknown(&mut object)) } else { status }
    })?;
    let intro = cannot_be_handled(&call.resource);
    let problems = normalize(&call.resource, &mut object, strictness != Strictness::Ignore, false).map_err(
        |status| {
            let is_complete = !resource.is_custom() || status.code != 400;
            if is_complete { status } else { Status::bad_request(format!("{intro}{}", status.message)) }
        },
    )?;
    let mut warnings = judge_problems(decoded.strict_errors(problems), strictness, &intro)?;
    if resource.is_custom() {
        warnings.extend(finalizer_warnings(&object["metadata"]));
    }
    warnings.extend(drop_equal_owners(&mut object, ""));
    Ok(ObjectDraft { object, warnings, has_managers: false })
}

/// Removes duplicate owners and returns a warning about them. `when` is Kubernetes' wording for patches.
fn drop_equal_owners(object: &mut Value, when: &str) -> Option<String> {
    let owners = object.get_mut("metadata")?.get_mut("ownerReferences")?.as_array_mut()?;
    if owners.len() < 2 {
        return None;
    }
    let mut seen = HashSet::new();
    let mut doubles = Vec::new();
    owners.retain(|owner| {
        let is_first = seen.insert(owner.to_string());
        if !is_first {
            doubles.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_first
    });
    (!doubles.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in \
             1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) \
             observed: {}",
            doubles.join(", ")
        )
    })
}

/// Reads a body of the version and kind expected here, in any encoding. Custom kinds do not support protobuf.
pub(super) fn read_body(
    call: &AuthorizedRequest,
    bytes: &[u8],
    wants_duplicates: bool,
    (api_version, kind): (&str, &str),
) -> Result<decode::DecodedBody, Status> {
    let content_type = call.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = match negotiate::body_encoding(content_type)? {
        BodyEncoding::Json if call.resource.is_custom() && *kind == *call.resource.kind => {
            decode::TextFormat::Json
        }
        BodyEncoding::Json => decode::TextFormat::TypedJson,
        BodyEncoding::Yaml => decode::TextFormat::Yaml,
        BodyEncoding::Protobuf if call.resource.is_custom() && kind != "DeleteOptions" => {
            return Err(negotiate::unsupported_body());
        }
        BodyEncoding::Protobuf => {
            let value = protobuf::decode(bytes, api_version, kind)?;
            return Ok(decode::DecodedBody::new(value));
        }
    };
    decode::object(bytes, media, DuplicateKeyReport::collect_if(wants_duplicates), kind)
}

/// Reads a document that is not an object of the resource (options, a Scale, a review) and decodes it into its type.
pub(super) fn decode_document(
    call: &AuthorizedRequest,
    bytes: &[u8],
    (api_version, kind): (&str, &str),
) -> Result<Value, Status> {
    let mut value = read_body(call, bytes, false, (api_version, kind))?.value;
    decode_into_type(&mut value, (api_version, kind))?;
    Ok(value)
}

/// Decodes such a document as strictly as the client requests, and returns warnings about it.
pub(super) fn decode_document_strictly(
    call: &AuthorizedRequest,
    bytes: &[u8],
    (api_version, kind): (&str, &str),
    strictness: Strictness,
) -> Result<(Value, Vec<String>), Status> {
    let mut decoded = read_body(call, bytes, strictness != Strictness::Ignore, (api_version, kind))?;
    let mut value = std::mem::take(&mut decoded.value);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema = schema::built_in(group, version, kind).expect("documents of the API have a type");
    let mut unknown = field::BoundedTexts::new();
    schema::prune(&schema, &mut value, (strictness != Strictness::Ignore).then_some(&mut unknown));
    schema::decode(&schema, &mut value).map_err(|why| schema::cannot_be_handled(kind, version, &why))?;
    let unknown = unknown.into_iter().map(|path| format!("unknown field {path:?}")).collect();
    let intro = format!("{kind} in version {version:?} cannot be handled as a {kind}: ");
    let warnings = judge_problems(decoded.strict_errors(unknown), strictness, &intro)?;
    Ok((value, warnings))
}

/// Decodes a document into its type.
pub(super) fn decode_into_type(value: &mut Value, (api_version, kind): (&str, &str)) -> Result<(), Status> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let schema = schema::built_in(group, version, kind).expect("documents of the API have a type");
    schema::decode(&schema, value).map_err(|why| schema::cannot_be_handled(kind, version, &why))
}

/// The origin of an object that a patch created.
#[derive(Clone, Copy)]
pub(super) struct PatchOrigin<'a> {
    /// Problems found in the patch itself.
    pub(super) problems: &'a [String],
    /// Whether it was a strategic patch. The results of strategic patches are not decoded from JSON.
    pub(super) is_strategic: bool,
    /// The part of the patch that refusals show; `None` means the resulting object.
    pub(super) shown: Option<&'a dyn Fn() -> String>,
}

/// Decodes the result of a patch.
pub(super) fn decode_patched(
    call: &AuthorizedRequest,
    mut object: Value,
    strictness: Strictness,
    origin: PatchOrigin<'_>,
) -> Result<ObjectDraft, Status> {
    let of_type = patched_type::check_type(call, &mut object, origin.is_strategic);
    let result = match of_type {
        Ok(dropped) => judge_patched(call, &mut object, strictness, (origin, dropped)),
        Err(patched_type::PatchedTypeError { status, dropped, is_decoded }) => {
            let problems = origin.problems.iter().cloned().chain(dropped).collect();
            match judge_problems(problems, strictness, "") {
                Ok(warnings) if is_decoded => return Err(status.warned(warnings)),
                Ok(_) => Err(*status),
                Err(strict) => Err(strict),
            }
        }
    };
    match result {
        Ok(mut warnings) => {
            warnings.extend(drop_equal_owners(&mut object, " after mutating admission happens"));
            Ok(ObjectDraft { object, warnings, has_managers: false })
        }
        Err(status) => Err(bad_result(&object, origin, &status)),
    }
}

/// Checks the document that a patch produced: its type, its fields, and that it can be decoded.
pub(super) fn patched_document(
    value: &mut Value,
    (api_version, kind): (&str, &str),
    strictness: Strictness,
    origin: PatchOrigin<'_>,
) -> Result<Vec<String>, Status> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let given = |name: &str| value[name].as_str().unwrap_or_default();
    if (given("apiVersion"), given("kind")) != (api_version, kind) {
        let (api_version, kind) = (given("apiVersion"), given("kind"));
        let why = format!("no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}");
        return Err(bad_result(value, origin, &Status::bad_request(why)));
    }
    let schema = schema::built_in(group, version, kind).expect("documents of the API have a type");
    let shown = value.clone();
    let mut unknown = field::BoundedTexts::new();
    schema::prune(&schema, value, (strictness != Strictness::Ignore).then_some(&mut unknown));
    let decoded =
        schema::decode(&schema, value).map_err(|why| schema::cannot_be_handled(kind, version, &why));
    let unknown = unknown.into_iter().map(|path| format!("unknown field {path:?}"));
    let problems = origin.problems.iter().cloned().chain(unknown).collect();
    let judged = decoded.and_then(|()| judge_problems(problems, strictness, ""));
    judged.map_err(|status| bad_result(&shown, origin, &status))
}

fn judge_patched(
    call: &AuthorizedRequest,
    object: &mut Value,
    strictness: Strictness,
    (origin, dropped): (PatchOrigin<'_>, Vec<String>),
) -> Result<Vec<String>, Status> {
    let mut problems = origin.problems.to_vec();
    problems.extend(dropped);
    problems.extend(normalize(
        &call.resource,
        object,
        strictness != Strictness::Ignore,
        origin.is_strategic,
    )?);
    judge_problems(problems, strictness, "")
}

/// Refuses a patch as a whole because its result cannot be decoded.
fn bad_result(object: &Value, origin: PatchOrigin<'_>, status: &Status) -> Status {
    if status.code != 400 {
        return status.clone();
    }
    let shown = origin.shown.map_or_else(|| object.to_string(), |shown| shown());
    let path = field::FieldPath::Root;
    let errors = field::Error::invalid(&path.field("patch"), &shown.into(), &status.message).into();
    Status::invalid("", "", "", &errors)
}

/// The configuration of a server-side apply: typed, but neither pruned nor defaulted.
pub(super) struct AppliedConfiguration {
    pub(super) object: Value,
    complaints: Vec<String>,
}

impl AppliedConfiguration {
    pub(super) fn parse(
        call: &AuthorizedRequest,
        bytes: &[u8],
        strictness: Strictness,
    ) -> Result<Self, Status> {
        let mut decoded = decode::body(
            bytes,
            decode::TextFormat::Yaml,
            DuplicateKeyReport::collect_if(strictness != Strictness::Ignore),
        )
        .map_err(|status| Status::bad_request(format!("{NOT_YAML}{CONVERTING}{}", status.message)))?;
        let object = match std::mem::take(&mut decoded.value) {
            Value::Null => Value::Object(serde_json::Map::new()),
            Value::Object(fields) => Value::Object(fields),
            other => {
                let found = decode::type_name(&other);
                return Err(Status::bad_request(format!(
                    "{NOT_YAML}error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go \
                     value of type map[string]interface {{}}"
                )));
            }
        };
        let resource = &call.resource;
        if object["apiVersion"] != *resource.api_version() || object["kind"] != *resource.kind {
            return Err(wrong_applied_type(&object));
        }
        Ok(Self { object, complaints: decoded.strict_errors(Vec::new()) })
    }

    /// Reports the problems in the text, once its content is known to be valid.
    pub(super) fn judge(&self, strictness: Strictness) -> Result<Vec<String>, Status> {
        match strictness {
            Strictness::Strict if !self.complaints.is_empty() => {
                let complaints = self.complaints.join(", ");
                Err(Status::bad_request(format!("error strict decoding YAML: {CONVERTING}{complaints}")))
            }
            Strictness::Ignore => Ok(Vec::new()),
            Strictness::Strict | Strictness::Warn => Ok(warnings_of(self.complaints.clone())),
        }
    }
}

fn warnings_of(complaints: Vec<String>) -> Vec<String> {
    complaints.into_iter().flat_map(decode::warnings_of_error).collect()
}

fn wrong_applied_type(object: &Value) -> Status {
    let given = |name: &str| object[name].as_str().unwrap_or_default();
    let (group, version) = given("apiVersion").split_once('/').unwrap_or(("", given("apiVersion")));
    Status::bad_request(format!("invalid object type: {group}/{version}, Kind={}", given("kind")))
}

fn cannot_be_handled(resource: &Resource) -> String {
    let kind = &resource.kind;
    format!("{kind} in version {:?} cannot be handled as a {kind}: ", &*resource.version)
}

/// Refuses, warns about or ignores the problems, depending on the strictness.
fn judge_problems(problems: Vec<String>, strictness: Strictness, intro: &str) -> Result<Vec<String>, Status> {
    match strictness {
        Strictness::Strict if !problems.is_empty() => {
            let message = format!("{intro}strict decoding error: {}", problems.join(", "));
            Err(Status::bad_request(message))
        }
        Strictness::Ignore => Ok(Vec::new()),
        Strictness::Strict | Strictness::Warn => Ok(warnings_of(problems)),
    }
}

/// Checks that the body has the kind that this endpoint serves. Built-in kinds may omit it.
fn check_type(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let expected = resource.api_version();
    let Some(map) = object.as_object_mut() else {
        return Err(Status::bad_request("the body of the request is not an object"));
    };
    let given = |name: &str| map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (api_version, kind) = (given("apiVersion"), given("kind"));
    if resource.is_custom() {
        return check_custom_type(resource, map, &api_version, &kind);
    }
    let or =
        |given: &str, default: &str| if given.is_empty() { default.to_owned() } else { given.to_owned() };
    let (api_version, kind) = (or(&api_version, &expected), or(&kind, &resource.kind));
    if api_version != expected || kind != *resource.kind {
        return Err(Status::bad_request(wrong_type(resource, &api_version, &kind)));
    }
    map.insert("kind".into(), (*resource.kind).into());
    map.insert("apiVersion".into(), expected.into());
    Ok(())
}

/// Returns why a body of this type does not fit the resource: its type is unknown, is a different kind, or is a
/// different version of the same kind.
pub(super) fn wrong_type(resource: &Resource, api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let intro = format!("{kind} in version {version:?} cannot be handled as a {}: ", resource.kind);
    // Kubernetes still recognizes versions that it no longer serves.
    let is_old = version.contains("beta") || version.contains("alpha");
    let single = kind.strip_suffix("List").unwrap_or(kind);
    if !is_old && schema::built_in(group, version, single).is_none() {
        return format!(
            "{intro}no kind {kind:?} is registered for version {api_version:?} in scheme {SCHEME:?}"
        );
    }
    if kind != &*resource.kind {
        let package = match &*resource.group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        let to = &resource.kind;
        return format!("{intro}converting ({version}.{kind}) to ({package}.{to}): unknown conversion");
    }
    let expected = resource.api_version();
    format!(
        "the API version in the data ({api_version}) does not match the expected API version ({expected})"
    )
}

fn check_custom_type(
    resource: &Resource,
    map: &serde_json::Map<String, Value>,
    api_version: &str,
    kind: &str,
) -> Result<(), Status> {
    if kind.is_empty() {
        let text = Value::Object(map.clone());
        return Err(Status::bad_request(format!("Object 'Kind' is missing in '{text}'")));
    }
    let expected = resource.api_version();
    if api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    if kind != &*resource.kind {
        let root = homeostat_api::field::FieldPath::Root;
        let detail = format!("must be {}", resource.kind);
        let errors = homeostat_api::field::Error::invalid(&root.field("kind"), &kind.into(), &detail).into();
        let name = map.get("metadata").and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        return Err(Status::invalid(&resource.group, kind, name, &errors));
    }
    Ok(())
}
