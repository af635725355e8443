//! Implements update: replaces the stored object with the body.

use std::sync::Mutex;

use homeostat_api::object::meta;
use homeostat_api::status::Status;
use serde_json::Value;

use super::answer::add_warnings;
use super::options::WriteOptions;
use super::pipeline::{self, ObjectDraft, OnMissing, wrong_uid};
use super::{Answer, AuthorizedRequest, decode_body};

/// The message for a body whose namespace differs from that of its path.
pub(super) const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// Replaces the object that the path names.
pub(super) async fn update(call: &AuthorizedRequest, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::parse(call, "UpdateOptions")?;
    let mut first = decode_body::decode_object(call, body, options.strictness)?;
    check_names(call, &first.object)?;
    let warnings = std::mem::take(&mut first.warnings);
    // Another write rarely intervenes. The body is parsed again only in that case, instead of being copied every time.
    let first = Mutex::new(Some(first));
    let draft = || {
        let first = first.lock().expect("nobody panics while taking").take();
        first.map_or_else(|| decode_body::decode_object(call, body, options.strictness), Ok)
    };
    let draft_of_missing = || check_missing(call, draft()?);
    let creates = call.strategy().creates_on_update && call.path.subresource.is_empty();
    let on_missing = if creates { OnMissing::Create(&draft_of_missing) } else { OnMissing::Refuse };
    add_warnings(pipeline::write_with_retries(call, &options, on_missing, |_| draft()).await, warnings)
}

/// Refuses to create an object that the client believes exists.
fn check_missing(call: &AuthorizedRequest, draft: ObjectDraft) -> Result<ObjectDraft, Status> {
    if !meta::uid(&draft.object).is_empty() {
        let about = call.resource.about(&call.path.name);
        return Err(Status::conflict(&about, &wrong_uid(call, meta::uid(&draft.object), "")));
    }
    if !meta::text(&draft.object, "resourceVersion").is_empty() {
        return Err(call.not_found());
    }
    call.check_may_create()?;
    Ok(draft)
}

/// Checks that the body and the path name the same object.
pub(super) fn check_names(call: &AuthorizedRequest, object: &Value) -> Result<(), Status> {
    let (on_path, in_body) = (&*call.path.name, meta::name(object));
    if in_body.is_empty() {
        let message = format!(
            "the name of the object ({on_path} based on URL) was undeterminable: name must be provided"
        );
        return Err(Status::bad_request(message));
    }
    if in_body != on_path {
        let message =
            format!("the name of the object ({in_body}) does not match the name on the URL ({on_path})");
        return Err(Status::bad_request(message));
    }
    let (on_path, in_body) = (&*call.path.namespace, meta::namespace(object));
    if call.resource.namespaced && !in_body.is_empty() && in_body != on_path {
        return Err(Status::bad_request(OTHER_NAMESPACE));
    }
    Ok(())
}
