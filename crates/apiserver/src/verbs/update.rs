//! Update: the body replaces the stored object.

use std::sync::Mutex;

use serde_json::Value;

use super::admit::{self, Admitted};
use super::answer::warned;
use super::options::WriteOptions;
use super::write::{Changed, change, wrong_uid};
use super::{Answer, Call, create};
use crate::object::meta;
use crate::status::Status;

/// What a body is told that names another namespace than its path.
pub(super) const OTHER_NAMESPACE: &str =
    "the namespace of the provided object does not match the namespace sent on the request";

/// Replaces the object the path names.
pub(super) async fn update(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    let options = WriteOptions::of(call, "UpdateOptions")?;
    let Admitted { object, warnings } = admit::body(call, body, options.strictness)?;
    check_names(call, &object)?;
    let is_missing = call.backend.store.snapshot().get(&call.key()).is_none();
    if is_missing && call.strategy().creates_on_update && call.path.subresource.is_empty() {
        return warned(create_missing(call, &options, object).await, warnings);
    }
    // Another write that comes between is rare: only then is the body read once more, instead of copying it each time.
    let object = Mutex::new(Some(object));
    let again = || admit::body(call, body, options.strictness).map(|admitted| admitted.object);
    let answer = change(call, &options, |_| {
        let first = object.lock().expect("nobody panics while taking").take();
        first.map_or_else(again, Ok).map(Changed::new)
    })
    .await;
    warned(answer, warnings)
}

async fn create_missing(call: &Call, options: &WriteOptions, mut object: Value) -> Result<Answer, Status> {
    if !meta::uid(&object).is_empty() {
        let about = call.resource.about(&call.path.name);
        return Err(Status::conflict(&about, &wrong_uid(call, meta::uid(&object), "")));
    }
    if !meta::text(&object, "resourceVersion").is_empty() {
        return Err(call.not_found());
    }
    meta::set(&mut object, "resourceVersion", None);
    call.check_may_create()?;
    create::create_object(call, options, object).await
}

/// The body must name the object of the path.
pub(super) fn check_names(call: &Call, object: &Value) -> Result<(), Status> {
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
