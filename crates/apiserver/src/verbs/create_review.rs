//! Handles reviews and token requests, which are answered but not stored.

use homeostat_api::resource::declaration::{PostAction, SubresourceDeclaration};
use homeostat_api::status::Status;
use serde_json::Value;

use super::decode_body::decode_document;
use super::{Answer, AuthorizedRequest};
use crate::auth::Reviewer;

/// A question that is answered but not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReviewRequest {
    /// A request for a ServiceAccount token.
    Token,
    /// A question about identities or permissions.
    Access,
}

impl ReviewRequest {
    /// Returns which type of review a call is; `None` if it is not a review.
    pub(crate) fn of_call(call: &AuthorizedRequest) -> Option<Self> {
        let kind = call.resource.declaration()?;
        let is_token =
            |part: &SubresourceDeclaration| part.name == "token" && call.path.subresource == "token";
        match kind.post {
            _ if kind.subresources.iter().any(is_token) => Some(Self::Token),
            PostAction::Review => Some(Self::Access),
            PostAction::Create | PostAction::BindPod => None,
        }
    }

    /// Answers the review.
    pub(crate) fn answer(
        self,
        call: &AuthorizedRequest,
        reviewer: &Reviewer<'_>,
        body: &[u8],
    ) -> Result<Answer, Status> {
        let body = decode_question(call, body)?;
        let answer = match self {
            Self::Token => {
                let issuer = reviewer.authenticator.issuer();
                let issuer =
                    issuer.ok_or_else(|| Status::internal("this server has no key to sign tokens with"))?;
                issuer.request(&call.path.namespace, &call.path.name, body)?
            }
            Self::Access => reviewer.review(&call.resource.kind, &call.path.namespace, body)?,
        };
        Ok(Answer::value(call, 201, &answer))
    }
}

fn decode_question(call: &AuthorizedRequest, body: &[u8]) -> Result<Value, Status> {
    let resource = &call.resource;
    let (api_version, kind) = match &*call.path.subresource {
        "token" => ("authentication.k8s.io/v1".to_owned(), "TokenRequest"),
        _ => (resource.api_version(), &*resource.kind),
    };
    let question = decode_document(call, body, (&api_version, kind))?;
    let kind = question["kind"].as_str().unwrap_or_default();
    if call.path.subresource.is_empty() && !kind.is_empty() && kind != &*call.resource.kind {
        return Err(Status::bad_request(format!("{kind} cannot be handled as a {}", call.resource.kind)));
    }
    Ok(question)
}
