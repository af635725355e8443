//! Implements Scale: the number of replicas of an object, read and written through a small separate object.

use homeostat_api::decode;
use homeostat_api::field::Errors;
use homeostat_api::kinds::subresource::{apply_scale, scale_of, validate_scale};
use homeostat_api::negotiate::{self, PatchType};
use homeostat_api::object::meta;
use homeostat_api::status::Status;
use serde_json::{Value, json};

use super::decode_body::{PatchOrigin, decode_document_strictly, patched_document};
use super::options::WriteOptions;
use super::patch::{Patch, merge_configuration};
use super::pipeline::{self, ObjectDraft, OnMissing};
use super::update::check_names;
use super::{Answer, AuthorizedRequest};
use crate::request::Verb;
use crate::stored::convert;

/// The apiVersion and kind of a Scale.
const SCALE: (&str, &str) = ("autoscaling/v1", "Scale");

/// The number that means "none" in the Scale of a custom object in Kubernetes.
const NO_NUMBER: i32 = i32::MIN;

/// The reason a Scale of a custom object cannot be applied: Kubernetes records the manager of the number in the version
/// of the Scale, and cannot convert that to the custom kind.
const NO_CONVERSION: &str =
    "to proper version: request to convert CR to an invalid group/version: autoscaling/v1";

/// Runs a request for a Scale.
pub(super) async fn handle_scale(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let content_type = call.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match call.verb {
        Verb::Get => show_scale(call, 200).await,
        Verb::Update => {
            let options = WriteOptions::parse(call, "UpdateOptions")?;
            let (scale, warnings) = decode_document_strictly(call, body, SCALE, options.strictness)?;
            check_scale(call, &scale)?;
            set_scale(call, &options, |_| Ok((scale.clone(), warnings.clone()))).await
        }
        _ => {
            let kind = negotiate::patch_type(content_type, call.resource.is_custom())?;
            if kind == PatchType::Apply {
                return apply_scale_patch(call, body).await;
            }
            let kind = if kind == PatchType::Strategic { PatchType::Merge } else { kind };
            patch_scale(call, kind, body).await
        }
    }
}

/// Runs any other patch to a Scale.
async fn patch_scale(call: &AuthorizedRequest, kind: PatchType, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse_patch(call, kind)?;
    let (patch, problems) = Patch::parse(kind, true, body)?;
    set_scale(call, &options, |old| {
        let mut scale = scale_of(&call.resource, old).or_else(|_| {
            // A number that was never set can still be patched.
            let none = json!({"spec": {"replicas": NO_NUMBER}});
            scale_of(&call.resource, &apply_scale(&call.resource, old.clone(), &none))
        })?;
        patch.apply(call, &mut scale)?;
        let origin = PatchOrigin { problems: &problems, is_strategic: false, shown: None };
        let warnings = patched_document(&mut scale, SCALE, options.strictness, origin)?;
        check_names(call, &scale)?;
        Ok((scale, warnings))
    })
    .await
}

/// Runs a server-side apply of a Scale: applies its number to the object on behalf of the field manager.
async fn apply_scale_patch(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse_patch(call, PatchType::Apply)?;
    let scale = decode::body(body, decode::TextFormat::Yaml, decode::DuplicateKeyReport::Omit)?.value;
    check_applied(call, &scale)?;
    let mut config = json!({"apiVersion": call.resource.api_version(), "kind": &*call.resource.kind,
        "metadata": {"name": call.path.name}});
    if !scale["spec"]["replicas"].is_null() {
        config = apply_scale(&call.resource, config, &scale);
    }
    pipeline::write_with_retries(call, &options, OnMissing::Refuse, |old| {
        if call.resource.is_custom() && !was_applied(old) {
            return Err(Status::unclassified(format!(
                "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, \
                 Kind=Scale) {NO_CONVERSION}"
            )));
        }
        let mut object = merge_configuration(call, &options, Some(old), &config)?;
        if call.resource.is_custom() {
            let name = &call.path.name;
            return Err(Status::unclassified(format!(
                "failed to convert new object (/{name}; autoscaling/v1, Kind=Scale) {NO_CONVERSION}"
            )));
        }
        let number = scale_of(&call.resource, &object).map(|scale| scale["spec"]["replicas"].clone());
        if number.unwrap_or_default().is_null() {
            // No manager wants a number any more, so it is removed.
            object = apply_scale(&call.resource, object, &Value::Null);
        }
        for field in ["uid", "resourceVersion"] {
            meta::set(&mut object, field, scale["metadata"].get(field).cloned());
        }
        Ok(ObjectDraft { object, warnings: Vec::new(), has_managers: true })
    })
    .await
}

/// Returns whether any part of the object was applied.
fn was_applied(object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers.into_iter().any(|manager| manager["operation"] == "Apply")
}

fn check_applied(call: &AuthorizedRequest, scale: &Value) -> Result<(), Status> {
    let given = |field: &str| scale[field].as_str().unwrap_or_default();
    if (given("apiVersion"), given("kind")) != SCALE {
        let (version, kind) = (given("apiVersion"), given("kind"));
        return Err(Status::bad_request(format!(
            "failed to create typed patch object: expected {}, Kind={}, got {version}, Kind={kind}",
            SCALE.0, SCALE.1
        )));
    }
    let replicas = &scale["spec"]["replicas"];
    if !replicas.is_null() && !replicas.is_number() {
        let (name, found) = (&call.path.name, decode::type_name(replicas));
        return Err(Status::unclassified(format!(
            "failed to create typed patch object (/{name}; autoscaling/v1, Kind=Scale): .spec.replicas: expected numeric \
             (int or float), got {found}"
        )));
    }
    if !replicas.is_null() && replicas.as_i64().is_none_or(|number| i32::try_from(number).is_err()) {
        return Err(Status::bad_request("spec.replicas of a Scale must be a whole number of 32 bits"));
    }
    check_number(call, scale)
}

async fn show_scale(call: &AuthorizedRequest, code: u16) -> Result<Answer, Status> {
    let snapshot = call.backend.store.snapshot();
    let entry = snapshot.get(&call.key()).ok_or_else(|| call.not_found())?;
    let entry = call.converted(entry).await?;
    let scale = scale_of(&call.resource, &convert::decode_in_version(&call.resource, &entry))?;
    Answer::object(call, code, &scale)
}

fn check_scale(call: &AuthorizedRequest, scale: &Value) -> Result<(), Status> {
    let (kind, api_version) = (scale["kind"].as_str(), scale["apiVersion"].as_str());
    if kind.is_some_and(|kind| kind != "Scale") || api_version.is_some_and(|one| one != "autoscaling/v1") {
        return Err(Status::bad_request("the body must be a Scale of autoscaling/v1"));
    }
    check_names(call, scale)
}

async fn set_scale(
    call: &AuthorizedRequest,
    options: &WriteOptions,
    make: impl Fn(&Value) -> Result<(Value, Vec<String>), Status> + Send + Sync,
) -> Result<Answer, Status> {
    pipeline::write_with_retries(call, options, OnMissing::Refuse, |old| {
        let (scale, warnings) = make(old)?;
        check_number(call, &scale)?;
        let mut object = apply_scale(&call.resource, old.clone(), &scale);
        // Only the fields that the client sends are conditions. Otherwise the number is set on the stored object
        // regardless of its state.
        for field in ["uid", "resourceVersion"] {
            let given = scale["metadata"].get(field).filter(|value| value.as_str() != Some(""));
            if let Some(given) = given {
                meta::set(&mut object, field, Some(given.clone()));
            }
        }
        Ok(ObjectDraft { object, warnings, has_managers: false })
    })
    .await
}

/// Refuses an invalid number. The number of a custom object is validated with the object.
fn check_number(call: &AuthorizedRequest, scale: &Value) -> Result<(), Status> {
    let custom = call.resource.custom().and_then(|custom| custom.scale.as_ref());
    if let (Some(custom), true) = (custom, scale["spec"]["replicas"] == NO_NUMBER) {
        let path = &custom.spec_replicas;
        return Err(Status::bad_request(format!("the spec replicas field {path:?} cannot be empty")));
    }
    let errors = if call.resource.is_custom() { Errors::new() } else { validate_scale(scale) };
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("autoscaling", "Scale", &call.path.name, &errors))
    }
}
