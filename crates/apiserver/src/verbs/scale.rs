//! Scale: the number of replicas of an object, seen and set through a small object of its own.

use serde_json::{Value, json};

use super::decode_body::{Origin, document, patched_document};
use super::options::WriteOptions;
use super::patch::{Patch, merged};
use super::pipeline::{self, Draft, OnMissing};
use super::update::check_names;
use super::{Answer, Call};
use crate::convert;
use crate::decode;
use crate::field::Errors;
use crate::kinds::subresource::{apply_scale, scale_of, validate_scale};
use crate::negotiate::{self, PatchType};
use crate::object::meta;
use crate::request::Verb;
use crate::status::Status;

/// What a Scale is.
const SCALE: (&str, &str) = ("autoscaling/v1", "Scale");

/// Runs a request for a Scale.
pub(super) async fn run(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let content_type = call.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match call.verb {
        Verb::Get => show(call, 200),
        Verb::Update => {
            let scale = document(call, body, SCALE)?;
            check_scale(call, &scale)?;
            let options = WriteOptions::of(call, "UpdateOptions")?;
            set(call, &options, |_| Ok((scale.clone(), Vec::new()))).await
        }
        _ => {
            let kind = negotiate::patch_type(content_type, call.resource.is_custom())?;
            if kind == PatchType::Apply {
                return applied(call, body).await;
            }
            let kind = if kind == PatchType::Strategic { PatchType::Merge } else { kind };
            patched(call, kind, body).await
        }
    }
}

/// Any other patch of a Scale.
async fn patched(call: &Call, kind: PatchType, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::of_patch(call, false)?;
    let (patch, problems) = Patch::parse(kind, body)?;
    set(call, &options, |old| {
        let mut scale = scale_of(&call.resource, old).or_else(|_| {
            // A number never set can still be patched in.
            scale_of(&call.resource, &apply_scale(&call.resource, old.clone(), &Value::Null))
        })?;
        patch.apply(call, &mut scale)?;
        let origin = Origin { problems: &problems, is_strategic: false, shown: None };
        let warnings = patched_document(&mut scale, SCALE, options.strictness, origin)?;
        check_names(call, &scale)?;
        Ok((scale, warnings))
    })
    .await
}

/// Server-side apply of a Scale: its number is applied to the object, in the name of the manager of the number.
async fn applied(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::of_patch(call, true)?;
    let scale = decode::body(body, decode::Media::Yaml, false)?.value;
    check_applied(call, &scale)?;
    let mut config = json!({"apiVersion": call.resource.api_version(), "kind": &*call.resource.kind,
        "metadata": {"name": call.path.name}});
    if !scale["spec"]["replicas"].is_null() {
        config = apply_scale(&call.resource, config, &scale);
    }
    pipeline::change(call, &options, OnMissing::Refuse, |old| {
        let mut object = merged(call, &options, Some(old), &config)?;
        let number = scale_of(&call.resource, &object).map(|scale| scale["spec"]["replicas"].clone());
        if number.unwrap_or_default().is_null() {
            // Nobody wants any number any more: none.
            object = apply_scale(&call.resource, object, &Value::Null);
        }
        for field in ["uid", "resourceVersion"] {
            meta::set(&mut object, field, scale["metadata"].get(field).cloned());
        }
        Ok(Draft { object, warnings: Vec::new(), has_managers: true })
    })
    .await
}

fn check_applied(call: &Call, scale: &Value) -> Result<(), Status> {
    let given = |field: &str| scale[field].as_str().unwrap_or_default();
    if (given("apiVersion"), given("kind")) != SCALE {
        let (version, kind) = (given("apiVersion"), given("kind"));
        return Err(Status::bad_request(format!(
            "failed to create typed patch object: expected {}, Kind={}, got {version}, Kind={kind}",
            SCALE.0, SCALE.1
        )));
    }
    let replicas = &scale["spec"]["replicas"];
    if !replicas.is_null() && replicas.as_i64().is_none_or(|number| i32::try_from(number).is_err()) {
        return Err(Status::bad_request("spec.replicas of a Scale must be a whole number of 32 bits"));
    }
    check_number(call, scale)
}

fn show(call: &Call, code: u16) -> Result<Answer, Status> {
    let snapshot = call.backend.store.snapshot();
    let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
    let scale = scale_of(&call.resource, &convert::decode(&call.resource, entry))?;
    Answer::object(call, code, &scale)
}

fn check_scale(call: &Call, scale: &Value) -> Result<(), Status> {
    let (kind, api_version) = (scale["kind"].as_str(), scale["apiVersion"].as_str());
    if kind.is_some_and(|kind| kind != "Scale") || api_version.is_some_and(|one| one != "autoscaling/v1") {
        return Err(Status::bad_request("the body must be a Scale of autoscaling/v1"));
    }
    check_names(call, scale)
}

async fn set(
    call: &Call,
    options: &WriteOptions,
    make: impl Fn(&Value) -> Result<(Value, Vec<String>), Status> + Send + Sync,
) -> Result<Answer, Status> {
    pipeline::change(call, options, OnMissing::Refuse, |old| {
        let (scale, warnings) = make(old)?;
        check_number(call, &scale)?;
        let mut object = apply_scale(&call.resource, old.clone(), &scale);
        // Only what the client names is a condition; else the number is set on whatever is stored.
        for field in ["uid", "resourceVersion"] {
            let given = scale["metadata"].get(field).filter(|value| value.as_str() != Some(""));
            if let Some(given) = given {
                meta::set(&mut object, field, Some(given.clone()));
            }
        }
        Ok(Draft { object, warnings, has_managers: false })
    })
    .await
}

/// Refuses a number that cannot be. That of a custom object is judged with the object.
fn check_number(call: &Call, scale: &Value) -> Result<(), Status> {
    let errors = if call.resource.is_custom() { Errors::new() } else { validate_scale(scale) };
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("autoscaling", "Scale", &call.path.name, &errors))
    }
}
