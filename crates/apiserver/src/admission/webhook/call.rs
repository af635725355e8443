//! One call of a webhook: a POST over TLS with HTTP/1.1, bounded in time and bytes.
//!
//! While it waits, the request gives up its slot to other requests. So that waiting requests cannot pile up instead,
//! each webhook has at most [`CALLS_MAX`] concurrent calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use homeostat_api::object::memory::memory_of_json;
use homeostat_api::status::Status;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;

use super::connection::connect;
use super::dispatch::{Webhook, WebhookFailure};
use super::response::{RESPONSE_MEMORY_MAX, TOO_MANY_PARTS};
use super::webhook_target::{WebhookTarget, target_of};
use crate::admission::AdmissionRequest;

/// The longest answer: the patch of a whole object, encoded, and more.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The time a webhook has if it names none.
const TIMEOUT_S: u64 = 10;
/// The most concurrent calls of one webhook: twice the writes that one user may have.
const CALLS_MAX: usize = 400;
/// The most characters of an answer that a failure repeats.
const SHOWN_CHARS_MAX: usize = 256;

/// The number of calls in progress, by webhook.
#[derive(Debug, Default)]
pub(in crate::admission) struct WebhookCalls(Mutex<HashMap<String, usize>>);

/// A call in progress, until dropped.
struct ActiveCall<'a> {
    calls: &'a WebhookCalls,
    id: &'a str,
}

impl WebhookCalls {
    fn begin<'a>(&'a self, id: &'a str) -> Option<ActiveCall<'a>> {
        let mut calls = self.counts();
        let count = calls.entry(id.to_owned()).or_default();
        if *count >= CALLS_MAX {
            return None;
        }
        *count += 1;
        Some(ActiveCall { calls: self, id })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        let mut calls = self.calls.counts();
        match calls.get_mut(self.id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(calls.remove(self.id)),
        }
    }
}

/// Calls a webhook and returns the JSON of its answer.
pub(super) async fn call(
    request: &AdmissionRequest<'_>,
    webhook: &Webhook,
    body: String,
) -> Result<Value, WebhookFailure> {
    let Some(_active) = request.admission.webhook_calls().begin(&webhook.id) else {
        let why =
            format!("too many requests wait for the webhook {:?}, please try again later", webhook.name());
        return Err(WebhookFailure::refused(Status::too_many_requests(why, 1)));
    };
    // Dropped at the end: from then on the slot is the request's own again, unless another one has taken it.
    let _waiting = request.slot.cloned().map(crate::serve::SlotHandle::mark_late);
    let timeout_s = webhook.spec["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_S);
    let target = target_of(&webhook.spec["clientConfig"]).map_err(|why| failed(&why))?;
    let url = format!("{}?timeout={timeout_s}s", target.url);
    let posted =
        tokio::time::timeout(Duration::from_secs(timeout_s), post(request, webhook, &target, (&url, body)));
    let answer = posted.await.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
    answer.map_err(|why| match why.strip_prefix(SERVER_SAID) {
        Some(said) => failed(said),
        None => failed(&format!("Post {url:?}: {why}")),
    })
}

/// Marks failures that are about the answer, not about getting one.
const SERVER_SAID: &str = "\0";

fn failed(why: &str) -> WebhookFailure {
    WebhookFailure::Failed(format!("failed to call webhook: {why}"))
}

async fn post(
    request: &AdmissionRequest<'_>,
    webhook: &Webhook,
    target: &WebhookTarget,
    (url, body): (&str, String),
) -> Result<Value, String> {
    let mut connection = connect(request, &webhook.spec["clientConfig"], target).await?;
    let uri = url.parse::<http::Uri>().map_err(|error| error.to_string())?;
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
    let question = Request::post(path)
        .header(header::HOST, target.authority.clone())
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| error.to_string())?;
    let answer = connection.send(question).await?;
    let code = answer.status().as_u16();
    let body = Limited::new(answer.into_body(), RESPONSE_BYTES_MAX).collect();
    let body = body.await.map_err(|error| format!("{SERVER_SAID}{error}"))?.to_bytes();
    if !(200..=206).contains(&code) {
        return Err(format!("{SERVER_SAID}{}", refusal_text(code, &body)));
    }
    if memory_of_json(&body) > RESPONSE_MEMORY_MAX {
        return Err(format!("{SERVER_SAID}the answer cannot be used: {TOO_MANY_PARTS}"));
    }
    serde_json::from_slice(&body).map_err(|_| {
        let shown = String::from_utf8_lossy(&body).chars().take(SHOWN_CHARS_MAX).collect::<String>();
        format!("{SERVER_SAID}couldn't get version/kind; json parse error in the answer {shown:?}")
    })
}

/// Returns what Kubernetes' client says about an answer with this code.
fn refusal_text(code: u16, body: &[u8]) -> String {
    let said = String::from_utf8_lossy(body).chars().take(SHOWN_CHARS_MAX).collect::<String>();
    match code {
        300..=399 => format!("the server redirects (code {code}), which is not followed"),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => format!("{:?} is forbidden", said.trim()),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        500.. => {
            format!("an error on the server ({:?}) has prevented the request from succeeding", said.trim())
        }
        _ => "the server rejected our request for an unknown reason".to_owned(),
    }
}
