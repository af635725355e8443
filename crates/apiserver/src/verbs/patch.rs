//! Implements patch: changes the stored object as the body describes, in one of four ways.

use homeostat_api::decode;
use homeostat_api::negotiate::{self, PatchType};
use homeostat_api::object::meta;
use homeostat_api::ordered::{FieldOrder, OrderedJson};
use homeostat_api::patch::apply::apply;
use homeostat_api::patch::go_format::GoPrinted;
use homeostat_api::patch::{json, merge, strategic};
use homeostat_api::status::Status;
use serde_json::{Value, json};

use super::decode_body::{self, AppliedConfiguration, PatchOrigin};
use super::options::WriteOptions;
use super::pipeline::{self, ObjectDraft, OnMissing};
use super::update::{OTHER_NAMESPACE, check_names};
use super::{Answer, AuthorizedRequest};

/// The field order in which Kubernetes shows the result of a patch: untouched fields are in the order of their type.
static RESULT: FieldOrder = FieldOrder { names: &[], inside: &[("metadata", &METADATA)], below: None };
static METADATA: FieldOrder = FieldOrder {
    names: &[
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ],
    inside: &[("managedFields", &MANAGED), ("ownerReferences", &OWNER)],
    below: Some(&BY_NAME),
};
static MANAGED: FieldOrder = FieldOrder {
    names: &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"],
    inside: &[],
    below: Some(&BY_NAME),
};
static OWNER: FieldOrder =
    FieldOrder { names: &["apiVersion", "kind", "name", "uid"], inside: &[], below: Some(&BY_NAME) };
static BY_NAME: FieldOrder = FieldOrder { names: &[], inside: &[], below: None };

/// Applies the body to the object that the path names.
pub(super) async fn patch(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let content_type = call.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = negotiate::patch_type(content_type, call.resource.is_custom())?;
    let options = WriteOptions::parse_patch(call, kind)?;
    if kind == PatchType::Apply {
        return apply_patch(call, &options, body).await;
    }
    let (patch, problems) = Patch::parse(kind, !call.resource.is_custom(), body)?;
    pipeline::write_with_retries(call, &options, OnMissing::Refuse, |old| {
        let mut object = old.clone();
        patch.apply(call, &mut object)?;
        let shown = || patch.shown(call, old);
        let is_strategic = matches!(patch, Patch::Strategic(_));
        let origin = PatchOrigin { problems: &problems, is_strategic, shown: Some(&shown) };
        let draft = decode_body::decode_patched(call, object, options.strictness, origin)?;
        check_identity(call, &draft.object, old)?;
        Ok(draft)
    })
    .await
}

/// A parsed patch, which is applied again each time the write is retried.
pub(super) enum Patch {
    Json(json::JsonPatch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    /// Parses a patch of an object with or without a type, and returns the problems that strict validation would
    /// report. A strategic patch is not decoded into a type, so it accepts any whole number.
    pub(super) fn parse(kind: PatchType, is_typed: bool, body: &[u8]) -> Result<(Self, Vec<String>), Status> {
        let format = match kind {
            PatchType::Json | PatchType::Merge if is_typed => decode::TextFormat::TypedJson,
            _ => decode::TextFormat::Json,
        };
        let decoded =
            decode::body(body, format, decode::DuplicateKeyReport::Collect).map_err(|status| match kind {
                PatchType::Merge => Status::bad_request(format!("error decoding patch: {}", status.message)),
                _ => status,
            })?;
        let (value, duplicates) = (decoded.value, decoded.duplicates);
        let mut problems =
            duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect::<Vec<_>>();
        let patch = match kind {
            PatchType::Json => {
                let unknown = json::JsonPatch::unknown_fields(&value).into_iter();
                problems.extend(unknown.map(|path| format!("json patch unknown field {path:?}")));
                Self::Json(json::JsonPatch::parse(value)?)
            }
            PatchType::Merge => Self::Merge(value),
            PatchType::Strategic | PatchType::Apply => Self::Strategic(value),
        };
        Ok((patch, problems))
    }

    /// Returns the text that a refusal shows: a strategic patch itself, or the result of any other patch.
    fn shown(&self, call: &AuthorizedRequest, old: &Value) -> String {
        if let Self::Strategic(patch) = self {
            return GoPrinted(patch).to_string();
        }
        let mut result = old.clone();
        // This succeeded before, on the same object.
        let _ = self.apply(call, &mut result);
        if call.resource.is_custom() {
            return result.to_string();
        }
        serde_json::to_string(&OrderedJson(&result, &RESULT)).expect("JSON values can be written")
    }

    pub(super) fn apply(&self, call: &AuthorizedRequest, object: &mut Value) -> Result<(), Status> {
        match self {
            Self::Json(patch) => patch.apply(object),
            Self::Merge(patch) => merge::apply(object, patch),
            Self::Strategic(patch) => {
                let schema =
                    call.resource.schema().ok_or_else(|| Status::internal("the kind has no schema"))?;
                strategic::apply(object, patch, &schema)
            }
        }
    }
}

/// Checks that a patch does not turn the object into a different one.
fn check_identity(call: &AuthorizedRequest, new: &Value, old: &Value) -> Result<(), Status> {
    if meta::name(new).is_empty() {
        return check_names(call, new);
    }
    let checked = ["name", "namespace"].into_iter();
    for field in checked.filter(|field| *field == "name" || call.resource.namespaced) {
        let (new, old) = (meta::text(new, field), meta::text(old, field));
        if !new.is_empty() && !old.is_empty() && new != old {
            let message =
                format!("the name of the object ({new}) does not match the name on the URL ({old})");
            return Err(Status::bad_request(if field == "name" { message } else { OTHER_NAMESPACE.into() }));
        }
    }
    Ok(())
}

/// The origin of an applied object: its problems were reported before it was merged.
const APPLIED: PatchOrigin<'_> = PatchOrigin { problems: &[], is_strategic: false, shown: None };

/// Runs a server-side apply, which also creates missing objects.
async fn apply_patch(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    body: &[u8],
) -> Result<Answer, Status> {
    let config = AppliedConfiguration::parse(call, body, options.strictness)?;
    let draft_of_missing = || draft_of_missing(call, options, &config);
    let creates = call.path.subresource.is_empty();
    let on_missing = if creates { OnMissing::Create(&draft_of_missing) } else { OnMissing::Refuse };
    pipeline::write_with_retries(call, options, on_missing, |old| {
        let object = merge_configuration(call, options, Some(old), &config.object)?;
        let warnings = config.judge(options.strictness)?;
        let draft = decode_body::decode_patched(call, object, options.strictness, APPLIED)?;
        check_identity(call, &draft.object, old)?;
        Ok(apply_draft(draft, warnings))
    })
    .await
}

/// Returns the draft of an apply: it already records the field managers. The warnings about its text come first.
fn apply_draft(draft: ObjectDraft, mut warnings: Vec<String>) -> ObjectDraft {
    warnings.extend(draft.warnings);
    ObjectDraft { object: draft.object, warnings, has_managers: true }
}

/// Returns the draft that an apply creates if there is no object.
fn draft_of_missing(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    config: &AppliedConfiguration,
) -> Result<ObjectDraft, Status> {
    let uid = meta::uid(&config.object);
    if !uid.is_empty() {
        let about = call.resource.about(&call.path.name);
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&about, &why));
    }
    let object = merge_configuration(call, options, None, &config.object)?;
    let warnings = config.judge(options.strictness)?;
    check_identity(call, &object, &json!({"metadata": {"name": call.path.name}}))?;
    let draft = decode_body::decode_patched(call, object, options.strictness, APPLIED)?;
    call.check_may_create()?;
    Ok(apply_draft(draft, warnings))
}

/// Returns the object with the configuration applied to it.
pub(super) fn merge_configuration(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    old: Option<&Value>,
    config: &Value,
) -> Result<Value, Status> {
    let schema = call.resource.schema();
    let api_version = call.resource.api_version();
    let manager = call.manager(&options.manager, &api_version);
    apply(schema.as_deref(), old, config, &manager, options.force, call.reset_fields())
}
