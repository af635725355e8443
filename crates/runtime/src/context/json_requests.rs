//! Sends requests that use the JSON of an object instead of its type: reading it completely, and patching it with tests
//! of the patch's assumptions.

use homeostat_core::Key;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use kube::api::{GetParams, Patch, PatchParams};
use serde_json::Value;

use crate::error::Error;
use crate::kind::KindInfo;
use crate::request::{Built, Decode, RequestLabel, call_as, send_request};
use crate::shared::ControllerShared;
use crate::shared::OperatorShared;

/// A JSON patch for an object or of one of its subresources.
pub(super) struct JsonPatch<'a> {
    /// Its purpose, for the error message.
    pub(super) verb: &'static str,
    pub(super) subresource: Option<&'a str>,
    pub(super) operations: Vec<Value>,
}

impl ControllerShared {
    /// Returns the object as it currently is on the server; `None` if it is gone.
    pub(crate) async fn read_whole(&self, key: &Key) -> Result<Option<Value>, Error> {
        read_whole(self.cache.info(), &self.operator, key).await
    }

    /// Sends a patch, which is applied completely or not at all.
    pub(super) async fn send_patch<T>(
        &self,
        key: &Key,
        patch: JsonPatch<'_>,
        decode: Decode<T>,
    ) -> Result<T, Error> {
        let request = patch_request(self.cache.info(), &self.operator, key, &patch);
        let label = RequestLabel { verb: patch.verb, target: key.as_str() };
        call_as(decode, &self.operator.client, label, request).await
    }
}

/// Returns an object of any kind as it currently is on the server; `None` if it is gone.
pub(super) async fn read_whole(
    info: &KindInfo,
    shared: &OperatorShared,
    key: &Key,
) -> Result<Option<Value>, Error> {
    let request = info.path_beside(key).get(key.name(), &GetParams::default());
    match send_request(&shared.client, RequestLabel { verb: "get", target: key.as_str() }, request).await {
        Err(error) if error.is_not_found() => Ok(None),
        answer => answer.map(Some),
    }
}

/// Sends a patch for an object of any kind, which is applied completely or not at all.
pub(super) async fn send_patch(
    info: &KindInfo,
    shared: &OperatorShared,
    key: &Key,
    patch: JsonPatch<'_>,
) -> Result<Value, Error> {
    let request = patch_request(info, shared, key, &patch);
    send_request(&shared.client, RequestLabel { verb: patch.verb, target: key.as_str() }, request).await
}

fn patch_request(info: &KindInfo, shared: &OperatorShared, key: &Key, patch: &JsonPatch<'_>) -> Built {
    let params = PatchParams { field_manager: Some(shared.name.to_string()), ..PatchParams::default() };
    let (url, body) = (info.path_beside(key), Patch::Merge(&patch.operations));
    as_json_patch(match patch.subresource {
        None => url.patch(key.name(), &params, &body),
        Some(subresource) => url.patch_subresource(subresource, key.name(), &params, &body),
    })
}

/// Returns whether a test in a patch may have failed. The same code means that the object would be invalid; only
/// reading the object shows which it is.
pub(super) fn is_stale(error: &Error) -> bool {
    matches!(error.code(), Some(409 | 422))
}

/// Returns a name as a segment of a JSON pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Marks a request as a JSON patch. kube accepts such patches only as another crate's types; the body is the same list.
fn as_json_patch(request: Built) -> Built {
    request.map(|mut request| {
        let media_type = HeaderValue::from_static("application/json-patch+json");
        request.headers_mut().insert(CONTENT_TYPE, media_type);
        request
    })
}
