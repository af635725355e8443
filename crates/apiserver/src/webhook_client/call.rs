//! Performs one call to a webhook: a POST over TLS with HTTP/1.1, bounded in time and bytes.
//!
//! While it waits, the request gives up its slot to other requests. To keep waiting requests from piling up instead,
//! each webhook has at most [`CALLS_MAX`] concurrent calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use homeostat_api::object::memory::memory_of_json;
use homeostat_api::status::Status;
use homeostat_core::Entropy;
use homeostat_store::SharedStore;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;

use super::connection::connect;
use super::target::{WebhookTarget, endpoint_of, target_of};
use crate::expensive_requests::step_aside;
use crate::serve::SlotHandle;

/// The maximum length of a response: the encoded patch for a whole object, and more.
const RESPONSE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The maximum memory that a response, or the patch in it, may take: about ten times the largest object.
pub(crate) const RESPONSE_MEMORY_MAX: usize = 32 * 1024 * 1024;
/// The reason given for refusing a larger one.
pub(crate) const TOO_MANY_PARTS: &str = "it has too many parts";
/// The maximum number of concurrent calls to one webhook: twice the writes that one user may have.
const CALLS_MAX: usize = 400;
/// The maximum length of the part of a response that a failure quotes.
const SHOWN_CHARS_MAX: usize = 256;

/// The number of calls in progress, by webhook.
#[derive(Debug, Default)]
struct WebhookCalls(Mutex<HashMap<String, usize>>);

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

/// A call to a webhook.
pub(crate) struct WebhookCall<'a> {
    /// Identifies the webhook. Calls are counted by this id.
    pub(crate) id: &'a str,
    /// Its name, for messages.
    pub(crate) name: &'a str,
    /// Its `clientConfig`.
    pub(crate) config: &'a Value,
    pub(crate) timeout_s: u64,
    pub(crate) user_agent: &'static str,
    pub(crate) body: String,
    /// The slot of the request, which is given up while it waits.
    pub(crate) slot: Option<SlotHandle>,
}

/// The reason a call has no result.
pub(crate) enum CallFailure {
    /// Too many requests are waiting for this webhook.
    Crowded(Box<Status>),
    /// The webhook cannot be reached, or its response is invalid. The text begins as in Kubernetes' client.
    Failed(String),
}

/// Calls webhooks.
pub(crate) struct WebhookClient {
    store: SharedStore,
    entropy: Entropy,
    calls: WebhookCalls,
}

impl WebhookClient {
    pub(crate) fn new(store: SharedStore, entropy: Entropy) -> Self {
        Self { store, entropy, calls: WebhookCalls::default() }
    }

    /// Calls a webhook and returns the JSON of its response. Dropping the future closes the connection.
    pub(crate) async fn ask(&self, question: WebhookCall<'_>) -> Result<Value, CallFailure> {
        let Some(_active) = self.calls.begin(question.id) else {
            let why =
                format!("too many requests wait for the webhook {:?}, please try again later", question.name);
            return Err(CallFailure::Crowded(Box::new(Status::too_many_requests(why, 1))));
        };
        // This is dropped at the end. From then on the slot belongs to the request again, unless another one has taken
        // it.
        let _waiting = question.slot.map(SlotHandle::mark_late);
        let target = target_of(question.config).map_err(CallFailure::Failed)?;
        let timeout_s = question.timeout_s;
        let url = format!("{}?timeout={timeout_s}s", target.url);
        let post = self.post((question.config, &target), (&url, question.user_agent), question.body);
        let answer = step_aside(tokio::time::timeout(Duration::from_secs(timeout_s), post)).await;
        let answer = answer.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        answer.map_err(|why| match why.strip_prefix(SERVER_SAID) {
            Some(said) => CallFailure::Failed(said.to_owned()),
            None => CallFailure::Failed(format!("Post {url:?}: {why}")),
        })
    }

    async fn post(
        &self,
        (config, target): (&Value, &WebhookTarget),
        (url, user_agent): (&str, &'static str),
        body: String,
    ) -> Result<Value, String> {
        let endpoint = endpoint_of(&self.store.snapshot(), &self.entropy, target).await?;
        let mut connection = connect(endpoint, config, target).await?;
        let uri = url.parse::<http::Uri>().map_err(|error| error.to_string())?;
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned();
        let question = Request::post(path)
            .header(header::HOST, target.authority.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, user_agent)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        let answer = connection.send(question).await?;
        let code = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), RESPONSE_BYTES_MAX).collect();
        let body = body.await.map_err(|error| format!("{SERVER_SAID}{error}"))?.to_bytes();
        parse_answer(code, &body).map_err(|why| format!("{SERVER_SAID}{why}"))
    }
}

/// Marks failures that concern the response itself, rather than getting one.
const SERVER_SAID: &str = "\0";

fn parse_answer(code: u16, body: &[u8]) -> Result<Value, String> {
    if !(200..=206).contains(&code) {
        return Err(refusal_text(code, body));
    }
    if memory_of_json(body) > RESPONSE_MEMORY_MAX {
        return Err(format!("the answer cannot be used: {TOO_MANY_PARTS}"));
    }
    serde_json::from_slice(body).map_err(|_| {
        let shown = String::from_utf8_lossy(body).chars().take(SHOWN_CHARS_MAX).collect::<String>();
        format!("couldn't get version/kind; json parse error in the answer {shown:?}")
    })
}

/// Returns the message of Kubernetes' client about a response with this code.
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
