//! Sends a request to the API server and decodes the response once, without managed fields. Everything the runtime
//! sends, except lists and watches, goes through this module, and no request waits forever: a connection may die
//! silently, and its caller would hang.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use homeostat_core::Key;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::error::Error;
use crate::kind::KindInfo;
use crate::kind::decoded_objects;
use crate::kind::object::Object;
use crate::watch::without_managed_fields;

/// How long to wait for a response. Servers give up on a request after 60 seconds; a server that has not responded a
/// little later never will.
const ANSWER_MAX: Duration = Duration::from_secs(65);

/// The verb and target of a request, for the error message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLabel<'a> {
    pub(crate) verb: &'static str,
    pub(crate) target: &'a str,
}

impl RequestLabel<'_> {
    /// Returns the target as people write it, if it is a key.
    fn describe_target(self) -> String {
        Key::parse(self.target).map_or_else(|| self.target.to_owned(), |key| key.to_string())
    }

    fn unanswered(self, source: impl Into<crate::error::BoxError>) -> Error {
        Error::Transport { verb: self.verb, target: self.describe_target(), source: source.into() }
    }
}

/// A request built by kube.
pub(crate) type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Sends a request and decodes the response.
pub(crate) async fn send_request<T: DeserializeOwned>(
    client: &Client,
    label: RequestLabel<'_>,
    request: Built,
) -> Result<T, Error> {
    call_within(ANSWER_MAX, client, label, request).await
}

/// Sends a request and decodes the response, for callers who have less time.
pub(crate) async fn call_within<T: DeserializeOwned>(
    limit: Duration,
    client: &Client,
    label: RequestLabel<'_>,
    request: Built,
) -> Result<T, Error> {
    let body = exchange(limit, client, label, request).await?;
    let text = std::str::from_utf8(&body).map_err(|error| label.unanswered(error))?;
    serde_json::from_str(&without_managed_fields(text)).map_err(|error| label.unanswered(error))
}

/// Sends a request for which only the response code matters.
pub(crate) async fn call_unread(
    client: &Client,
    label: RequestLabel<'_>,
    request: Built,
) -> Result<(), Error> {
    exchange(ANSWER_MAX, client, label, request).await.map(drop)
}

/// Sends a request and decodes the response as an object of this kind.
pub(crate) async fn call_object(
    client: &Client,
    label: RequestLabel<'_>,
    info: &KindInfo,
    request: Built,
) -> Result<Arc<Object>, Error> {
    let body = exchange(ANSWER_MAX, client, label, request).await?;
    let text = std::str::from_utf8(&body).map_err(|error| label.unanswered(error))?;
    if let Some(known) = decoded_objects::get(info, text) {
        return Ok(known);
    }
    let object = (info.decode)(&without_managed_fields(text)).map_err(|error| label.unanswered(error))?;
    decoded_objects::insert(info, text, &object);
    Ok(object)
}

/// Decodes a response.
pub(crate) type Decode<T> = fn(&str) -> serde_json::Result<T>;

/// Sends a request and decodes the response in this way.
pub(crate) async fn call_as<T>(
    decode: Decode<T>,
    client: &Client,
    label: RequestLabel<'_>,
    request: Built,
) -> Result<T, Error> {
    let body = exchange(ANSWER_MAX, client, label, request).await?;
    let text = std::str::from_utf8(&body).map_err(|error| label.unanswered(error))?;
    decode(&without_managed_fields(text)).map_err(|error| label.unanswered(error))
}

/// Sends a request and decodes the response, with managed fields.
pub(crate) async fn call_whole<T: DeserializeOwned>(
    client: &Client,
    label: RequestLabel<'_>,
    request: Built,
) -> Result<T, Error> {
    let body = exchange(ANSWER_MAX, client, label, request).await?;
    serde_json::from_slice(&body).map_err(|error| label.unanswered(error))
}

async fn exchange(
    limit: Duration,
    client: &Client,
    label: RequestLabel<'_>,
    request: Built,
) -> Result<Bytes, Error> {
    let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
    let answered = async {
        let response = client.send(request.map(Body::from)).await.map_err(|error| label.unanswered(error))?;
        let code = response.status();
        let body = response.into_body().collect_bytes().await.map_err(|error| label.unanswered(error))?;
        Ok((code, body))
    };
    let (code, body) = timeout(limit, answered)
        .await
        .map_err(|_| label.unanswered(format!("the server was silent for {} s", limit.as_secs())))??;
    if code.is_success() {
        return Ok(body);
    }
    let status = serde_json::from_slice::<Status>(&body)
        .unwrap_or_else(|_| Status::failure(&String::from_utf8_lossy(&body), "Unknown"))
        .with_code(code.as_u16());
    Err(Error::Api { verb: label.verb, target: label.describe_target(), status: Box::new(status) })
}
