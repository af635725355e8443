//! Asks an operator that runs as a Pod for its journal, through the API server's proxy.
//!
//! The operator must know whose question it is, and a proxying server does not say. So the caller shows a token that is
//! made for this one operator: the operator asks the server whose it is, and what that user may read. Homeostat's
//! server issues such tokens to every user. Kubernetes issues them for service accounts only, so there it is one for the
//! operator's own account: whoever may create that may act as the operator, and thus read all that it reads.
//!
//! **Invariant:** the caller's own credentials go to the API server and nowhere else. The token opens nothing but this
//! operator's journal, so that an operator that was taken over gains nothing by it.

use std::time::Duration;

use homeostat_core::Key;
use homeostat_core::write_history::OperatorJournal;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::served_kinds::escape;
use crate::admin::{CALLER_TOKEN_HEADER, JOURNAL_PATH};
use crate::admin_address::AdminPod;

/// How long one operator may take for all answers, by way of the server.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// The most bytes of one answer: a whole ring, as JSON.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// The shortest lifetime of a token that Kubernetes issues.
const TOKEN_SECONDS: u32 = 600;

/// Returns the journal of the operator in this Pod about each object, or why it was not asked.
pub(super) async fn load_journals(
    client: &Client,
    pod: &AdminPod,
    keys: &[Key],
) -> Result<Vec<OperatorJournal>, String> {
    let asked = async {
        let token = load_token(client, pod).await?;
        let mut journals = Vec::new();
        for key in keys {
            journals.extend(load_journal(client, pod, &token, key).await?);
        }
        Ok(journals)
    };
    let late = || format!("the Pod {}/{} did not answer within {ANSWER_MAX:?}", pod.namespace, pod.name);
    timeout(ANSWER_MAX, asked).await.unwrap_or_else(|_| Err(late()))
}

/// An answer of the server, or of the operator behind it.
struct RawAnswer {
    code: u16,
    is_json: bool,
    body: Vec<u8>,
}

impl RawAnswer {
    fn parse<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.body).map_err(|error| error.to_string())
    }

    /// Returns the message of a refusal.
    fn message(&self) -> String {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        match status["message"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("{}: {}", self.code, String::from_utf8_lossy(&self.body).trim()),
        }
    }
}

async fn send(client: &Client, request: http::request::Builder, body: Vec<u8>) -> Result<RawAnswer, String> {
    let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, BYTES_MAX).collect().await.map_err(|error| error.to_string())?;
    let media = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = media.starts_with("application/json");
    Ok(RawAnswer { code: head.status.as_u16(), is_json, body: body.to_bytes().to_vec() })
}

async fn load_journal(
    client: &Client,
    pod: &AdminPod,
    token: &str,
    key: &Key,
) -> Result<Option<OperatorJournal>, String> {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}:{}/proxy{JOURNAL_PATH}?group={}&resource={}&namespace={}&name={}",
        pod.namespace,
        pod.name,
        pod.port,
        escape(key.group()),
        escape(key.resource()),
        escape(key.namespace()),
        escape(key.name())
    );
    let request = http::Request::get(path).header(CALLER_TOKEN_HEADER, token);
    let answer = send(client, request, Vec::new()).await?;
    match answer.code {
        200 => answer.parse().map(Some),
        // The operator's own answer is text; JSON is the server's, and says that there is no such Pod.
        404 if !answer.is_json => Ok(None),
        _ => Err(answer.message()),
    }
}

/// Returns a token that shows the audience who asks, from a server that issues them to every user; `None` from any other.
pub(super) async fn load_audience_token(client: &Client, audience: &str) -> Result<Option<String>, String> {
    let path = format!("/homeostat/audience-token?audience={}", escape(audience));
    let answer = send(client, http::Request::post(path), Vec::new()).await?;
    match answer.code {
        200 => Ok(answer.parse::<Value>()?["token"].as_str().map(str::to_owned)),
        // Kubernetes has no such path, and tells only those who may use any.
        403 | 404 => Ok(None),
        _ => Err(answer.message()),
    }
}

/// Returns a token that shows this operator who asks.
async fn load_token(client: &Client, pod: &AdminPod) -> Result<String, String> {
    let audience = pod.audience();
    if let Some(token) = load_audience_token(client, &audience).await? {
        return Ok(token);
    }
    let account = load_account(client, pod).await?;
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", pod.namespace, escape(&account));
    let question = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [audience], "expirationSeconds": TOKEN_SECONDS},
    });
    let request = http::Request::post(path).header(CONTENT_TYPE, "application/json");
    let answer = send(client, request, question.to_string().into_bytes()).await?;
    match answer.code {
        200..=201 => Ok(answer.parse::<Value>()?["status"]["token"].as_str().unwrap_or_default().to_owned()),
        _ => Err(format!("it wants to know who asks: {}", answer.message())),
    }
}

/// Returns the service account of the Pod.
async fn load_account(client: &Client, pod: &AdminPod) -> Result<String, String> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    let answer = send(client, http::Request::get(path), Vec::new()).await?;
    if answer.code != 200 {
        return Err(answer.message());
    }
    let account = answer.parse::<Value>()?["spec"]["serviceAccountName"].as_str().map(str::to_owned);
    Ok(account.unwrap_or_else(|| "default".to_owned()))
}
