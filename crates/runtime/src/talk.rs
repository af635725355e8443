//! One request to the API server and its answer, decoded once and without managed fields. Everything the runtime
//! sends, except lists and watches, goes through [`call`].

use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::watch::Trimmed;

/// What is tried on what, for the error message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) verb: &'static str,
    pub(crate) target: &'a str,
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// Sends a request and decodes the answer.
pub(crate) async fn call<T: DeserializeOwned>(
    client: &Client,
    attempt: Attempt<'_>,
    request: Built,
) -> Result<T, Error> {
    let unanswered = |source: crate::fault::BoxError| Error::Transport {
        verb: attempt.verb,
        target: attempt.target.to_owned(),
        source,
    };
    let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
    let response = client.send(request.map(Body::from)).await.map_err(|error| unanswered(error.into()))?;
    let code = response.status();
    let body = response.into_body().collect_bytes().await.map_err(|error| unanswered(error.into()))?;
    if code.is_success() {
        let Trimmed(answer) = serde_json::from_slice(&body).map_err(|error| unanswered(error.into()))?;
        return Ok(answer);
    }
    let status = serde_json::from_slice::<Status>(&body)
        .unwrap_or_else(|_| Status::failure(&String::from_utf8_lossy(&body), "Unknown"))
        .with_code(code.as_u16());
    Err(Error::Api { verb: attempt.verb, target: attempt.target.to_owned(), status: Box::new(status) })
}
