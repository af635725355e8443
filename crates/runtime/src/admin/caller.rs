//! Who asks a question, and what they may know: the caller presents a token; the API server says whose it is and what
//! that user may get.
//!
//! **Invariant:** what the server was not asked, or did not answer, counts as a refusal.

use homeostat_core::Key;
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::AdminPage;
use crate::error::Error;
use crate::request::{RequestLabel, send_request};
use crate::shared::OperatorShared;

/// The header of a question from a caller who keeps their own credentials to themselves: a token for this operator only.
pub(crate) const CALLER_TOKEN_HEADER: &str = "homeostat-caller-token";

/// Who asks, as the API server identifies them.
pub(super) struct Caller<'a> {
    shared: &'a OperatorShared,
    user: Value,
}

impl<'a> Caller<'a> {
    /// Returns who asks, or the page for callers who are not known.
    pub(super) async fn load(
        shared: &'a OperatorShared,
        headers: &HeaderMap,
    ) -> Result<Result<Self, AdminPage>, Error> {
        let unauthorized = |text: &str| AdminPage::text(StatusCode::UNAUTHORIZED, text);
        let Some(token) = caller_token(shared, headers) else {
            return Ok(Err(unauthorized("send a token of the cluster: authorization: Bearer TOKEN\n")));
        };
        let user = review_token(shared, &token).await?;
        Ok(match user {
            Some(user) => Ok(Self { shared, user }),
            None => Err(unauthorized("the API server does not know this token\n")),
        })
    }

    /// Returns whether the caller may get an object; without a name, all of its namespace, and without a namespace, all.
    pub(super) async fn may_get(&self, key: &Key) -> Result<bool, Error> {
        let attributes = json!({
            "verb": "get",
            "group": key.group(),
            "resource": key.resource(),
            "namespace": key.namespace(),
            "name": key.name(),
        });
        self.review(json!({"resourceAttributes": attributes})).await
    }

    /// Returns whether the caller may read the server's metrics, and so may know what operators are doing.
    pub(super) async fn may_read_metrics(&self) -> Result<bool, Error> {
        self.review(json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}})).await
    }

    async fn review(&self, mut spec: Value) -> Result<bool, Error> {
        for (field, of_user) in
            [("user", "username"), ("groups", "groups"), ("uid", "uid"), ("extra", "extra")]
        {
            spec[field] = self.user[of_user].clone();
        }
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": crate::json_diff::without_nulls(spec),
        });
        let answer =
            ask(self.shared, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &question).await?;
        Ok(answer["status"]["allowed"] == true)
    }
}

/// Returns the page for a question that could not be checked.
pub(super) fn unchecked_page(error: &Error) -> AdminPage {
    let text = format!("the API server was not asked who you are and what you may read: {error}\n");
    AdminPage::text(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// A token that says who asks.
enum CallerToken<'a> {
    /// The caller's own, from this machine.
    Own(&'a str),
    /// One for this operator and nobody else, by any of these names.
    ForAudiences(&'a str, Vec<String>),
}

/// Returns the token of a question; one for this operator counts first.
fn caller_token<'a>(shared: &OperatorShared, headers: &'a HeaderMap) -> Option<CallerToken<'a>> {
    if let Some(token) = headers.get(CALLER_TOKEN_HEADER) {
        let audiences = shared.admin_address.as_ref()?.audiences();
        return token.to_str().ok().map(|token| CallerToken::ForAudiences(token, audiences));
    }
    bearer(headers).map(CallerToken::Own)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers
        .get(AUTHORIZATION)?
        .to_str()
        .ok()?
        .strip_prefix("Bearer ")
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

/// Asks the server which user the token belongs to; `None` if it is invalid.
async fn review_token(shared: &OperatorShared, token: &CallerToken<'_>) -> Result<Option<Value>, Error> {
    let spec = match token {
        CallerToken::Own(token) => json!({"token": token}),
        CallerToken::ForAudiences(token, audiences) => json!({"token": token, "audiences": audiences}),
    };
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec});
    let answer = ask(shared, "/apis/authentication.k8s.io/v1/tokenreviews", &question).await?;
    // A server that knows nothing of audiences names none, and its answer does not count.
    let is_meant = match token {
        CallerToken::Own(_) => true,
        CallerToken::ForAudiences(_, audiences) => {
            let meant = answer["status"]["audiences"].as_array();
            meant.is_some_and(|meant| {
                meant.iter().any(|one| audiences.iter().any(|audience| one == audience.as_str()))
            })
        }
    };
    let is_known = is_meant && answer["status"]["authenticated"] == true;
    Ok(is_known.then(|| answer["status"]["user"].clone()))
}

async fn ask(shared: &OperatorShared, path: &str, question: &Value) -> Result<Value, Error> {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(question.to_string().into_bytes())
        .map_err(|error| Error::Invalid(error.to_string()))?;
    send_request(&shared.client, RequestLabel { verb: "ask", target: path }, Ok(request)).await
}
