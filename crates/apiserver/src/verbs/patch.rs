//! Patch: the body describes a change to the stored object, in one of four ways.

use serde_json::{Value, json};

use super::decode_body::{self, Applied, Origin};
use super::options::WriteOptions;
use super::pipeline::{self, Draft, OnMissing};
use super::update::{OTHER_NAMESPACE, check_names};
use super::{Answer, Call};
use crate::decode;
use crate::negotiate::{self, PatchType};
use crate::object::meta;
use crate::ordered::{Order, Ordered};
use crate::patch::apply::apply;
use crate::patch::go::Printed;
use crate::patch::{json, merge, strategic};
use crate::status::Status;

/// The result of a patch as Kubernetes shows it: what was not looked into is in the order of its type.
static RESULT: Order = Order { names: &[], inside: &[("metadata", &METADATA)], below: None };
static METADATA: Order = Order {
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
static MANAGED: Order = Order {
    names: &["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"],
    inside: &[],
    below: Some(&BY_NAME),
};
static OWNER: Order =
    Order { names: &["apiVersion", "kind", "name", "uid"], inside: &[], below: Some(&BY_NAME) };
static BY_NAME: Order = Order { names: &[], inside: &[], below: None };

/// Applies the body to the object the path names.
pub(super) async fn patch(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let content_type = call.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = negotiate::patch_type(content_type, call.resource.is_custom())?;
    let options = WriteOptions::of_patch(call, kind == PatchType::Apply)?;
    if kind == PatchType::Apply {
        return apply_patch(call, &options, body).await;
    }
    let (patch, problems) = Patch::parse(kind, body)?;
    pipeline::change(call, &options, OnMissing::Refuse, |old| {
        let mut object = old.clone();
        patch.apply(call, &mut object)?;
        let shown = || patch.shown(call, old);
        let is_strategic = matches!(patch, Patch::Strategic(_));
        let origin = Origin { problems: &problems, is_strategic, shown: Some(&shown) };
        let draft = decode_body::patched(call, object, options.strictness, origin)?;
        check_identity(call, &draft.object, old)?;
        Ok(draft)
    })
    .await
}

/// A parsed patch, applied as often as the write is retried.
pub(super) enum Patch {
    Json(json::Patch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    /// Reads a patch, and what a strict client would not like about it.
    pub(super) fn parse(kind: PatchType, body: &[u8]) -> Result<(Self, Vec<String>), Status> {
        let decoded = decode::body(body, decode::Media::Json, true).map_err(|status| match kind {
            PatchType::Merge => Status::bad_request(format!("error decoding patch: {}", status.message)),
            _ => status,
        })?;
        let (value, duplicates) = (decoded.value, decoded.duplicates);
        let mut problems =
            duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect::<Vec<_>>();
        let patch = match kind {
            PatchType::Json => {
                let unknown = json::Patch::unknown_fields(&value).into_iter();
                problems.extend(unknown.map(|path| format!("json patch unknown field {path:?}")));
                Self::Json(json::Patch::parse(value)?)
            }
            PatchType::Merge => Self::Merge(value),
            PatchType::Strategic | PatchType::Apply => Self::Strategic(value),
        };
        Ok((patch, problems))
    }

    /// What a refusal shows: a strategic patch itself, of others what they made of the object.
    fn shown(&self, call: &Call, old: &Value) -> String {
        if let Self::Strategic(patch) = self {
            return Printed(patch).to_string();
        }
        let mut result = old.clone();
        // It was applied to the same object before.
        let _ = self.apply(call, &mut result);
        if call.resource.is_custom() {
            return result.to_string();
        }
        serde_json::to_string(&Ordered(&result, &RESULT)).expect("JSON values can be written")
    }

    pub(super) fn apply(&self, call: &Call, object: &mut Value) -> Result<(), Status> {
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

/// A patch may not turn the object into another.
fn check_identity(call: &Call, new: &Value, old: &Value) -> Result<(), Status> {
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

/// What an apply made: its problems were told before it was merged.
const APPLIED: Origin<'_> = Origin { problems: &[], is_strategic: false, shown: None };

/// Server-side apply: also creates.
async fn apply_patch(call: &Call, options: &WriteOptions, body: &[u8]) -> Result<Answer, Status> {
    let config = Applied::parse(call, body, options.strictness)?;
    let draft_of_missing = || draft_of_missing(call, options, &config);
    let creates = call.path.subresource.is_empty();
    let on_missing = if creates { OnMissing::Create(&draft_of_missing) } else { OnMissing::Refuse };
    pipeline::change(call, options, on_missing, |old| {
        let object = merged(call, options, Some(old), &config.object)?;
        let warnings = config.judge(options.strictness)?;
        let draft = decode_body::patched(call, object, options.strictness, APPLIED)?;
        check_identity(call, &draft.object, old)?;
        Ok(applied(draft, warnings))
    })
    .await
}

/// What an apply makes: it says who manages which field. The warnings about its text come first.
fn applied(draft: Draft, mut warnings: Vec<String>) -> Draft {
    warnings.extend(draft.warnings);
    Draft { object: draft.object, warnings, has_managers: true }
}

/// What an apply makes of nothing.
fn draft_of_missing(call: &Call, options: &WriteOptions, config: &Applied) -> Result<Draft, Status> {
    let uid = meta::uid(&config.object);
    if !uid.is_empty() {
        let about = call.resource.about(&call.path.name);
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&about, &why));
    }
    let object = merged(call, options, None, &config.object)?;
    let warnings = config.judge(options.strictness)?;
    check_identity(call, &object, &json!({"metadata": {"name": call.path.name}}))?;
    let draft = decode_body::patched(call, object, options.strictness, APPLIED)?;
    call.check_may_create()?;
    Ok(applied(draft, warnings))
}

/// The object with the configuration applied to it.
pub(super) fn merged(
    call: &Call,
    options: &WriteOptions,
    old: Option<&Value>,
    config: &Value,
) -> Result<Value, Status> {
    let schema = call.resource.schema();
    let api_version = call.resource.api_version();
    let manager = call.manager(&options.manager, &api_version);
    apply(schema.as_deref(), old, config, &manager, options.force, call.reset_fields())
}
