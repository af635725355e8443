//! Requests a page from an operator that runs as a Pod, through the API server's proxy.
//!
//! The operator must know who sends the request, and a proxying server does not say. The caller therefore presents a
//! token that is issued for this one operator: the operator asks the server whom it belongs to, and what that user may
//! read. Homeostat's server issues such tokens to every user. Kubernetes issues them for service accounts only, so in
//! that case the token is for the operator's own account: whoever may create such a token may act as the operator, and
//! can therefore read everything that it reads.
//!
//! **Invariant:** the caller's own credentials go to the API server and nowhere else. The token grants access only to
//! this operator's pages, so a compromised operator gains nothing from it.

use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::ask_failure::AskFailure;
use super::operator_request::PageRequest;
use super::served_kinds::escape;
use crate::admin::CALLER_TOKEN_HEADER;
use crate::admin_address::AdminPod;

/// The maximum number of bytes in the server's own responses: a token, or a Pod.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The shortest lifetime of a token that Kubernetes issues.
const TOKEN_SECONDS: u32 = 600;

/// A response from the server, or from the operator behind it.
struct RawAnswer {
    code: u16,
    is_json: bool,
    body: Vec<u8>,
}

impl RawAnswer {
    fn parse(&self) -> Result<Value, AskFailure> {
        serde_json::from_slice(&self.body).map_err(|error| AskFailure::Broken(error.to_string()))
    }

    fn refusal(&self) -> AskFailure {
        let status: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let message = match status["message"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("{}: {}", self.code, String::from_utf8_lossy(&self.body).trim()),
        };
        AskFailure::Refused { code: self.code, message }
    }
}

async fn send(
    client: &Client,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<RawAnswer, AskFailure> {
    send_bounded(client, request, body, BYTES_MAX).await
}

async fn send_bounded(
    client: &Client,
    request: http::request::Builder,
    body: Vec<u8>,
    bytes_max: usize,
) -> Result<RawAnswer, AskFailure> {
    let broken = |error: &dyn std::fmt::Display| AskFailure::Broken(error.to_string());
    let request = request.body(Body::from(body)).map_err(|error| broken(&error))?;
    let response = client.send(request).await.map_err(|error| broken(&error))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, bytes_max).collect().await.map_err(|error| broken(&error))?;
    let media = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = media.starts_with("application/json");
    Ok(RawAnswer { code: head.status.as_u16(), is_json, body: body.to_bytes().to_vec() })
}

/// Returns a page from the operator in this Pod; `None` if it has no data or does not reveal it.
pub(super) async fn load_page(
    client: &Client,
    pod: &AdminPod,
    token: &str,
    page: PageRequest<'_>,
) -> Result<Option<Vec<u8>>, AskFailure> {
    let AdminPod { namespace, name, port } = pod;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy{}", page.path);
    let request = http::Request::get(path).header(CALLER_TOKEN_HEADER, token);
    let answer = send_bounded(client, request, Vec::new(), page.bytes_max).await?;
    match answer.code {
        200 => Ok(Some(answer.body)),
        // The operator itself responds with text; a JSON response comes from the server and says that there is no such
        // Pod.
        404 if !answer.is_json => Ok(None),
        _ => Err(answer.refusal()),
    }
}

/// Returns a token that shows the audience who asks, from a server that issues them to every user; `None` from any other.
pub(super) async fn load_audience_token(
    client: &Client,
    audience: &str,
) -> Result<Option<String>, AskFailure> {
    let path = format!("/homeostat/audience-token?audience={}", escape(audience));
    let answer = send(client, http::Request::post(path), Vec::new()).await?;
    match answer.code {
        200 => Ok(answer.parse()?["token"].as_str().map(str::to_owned)),
        // Kubernetes has no such path, and reveals that only to users who may access any path.
        403 | 404 => Ok(None),
        _ => Err(answer.refusal()),
    }
}

/// Returns a token that identifies the caller to this operator.
pub(super) async fn load_token(client: &Client, pod: &AdminPod) -> Result<String, AskFailure> {
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
        200..=201 => Ok(answer.parse()?["status"]["token"].as_str().unwrap_or_default().to_owned()),
        _ => Err(answer.refusal().prefixed("it wants to know who asks")),
    }
}

/// Returns the service account of the Pod.
async fn load_account(client: &Client, pod: &AdminPod) -> Result<String, AskFailure> {
    let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
    let answer = send(client, http::Request::get(path), Vec::new()).await?;
    if answer.code != 200 {
        return Err(answer.refusal());
    }
    let account = answer.parse()?["spec"]["serviceAccountName"].as_str().map(str::to_owned);
    Ok(account.unwrap_or_else(|| "default".to_owned()))
}
