//! Reviews and tokens: questions that are answered and not stored.

use serde_json::Value;

use super::decode_body::document;
use super::{Answer, Call};
use crate::auth::Reviewer;
use crate::kinds::declaration::{Part, Post};
use crate::status::Status;

/// A question that is answered and not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// For a token of a ServiceAccount.
    Token,
    /// About who one is or what one may do.
    Access,
}

impl Review {
    /// Tells which question a call asks; `None`: it is something else.
    pub(crate) fn of(call: &Call) -> Option<Self> {
        let kind = call.resource.declaration()?;
        let is_token = |part: &Part| part.name == "token" && call.path.subresource == "token";
        match kind.post {
            _ if kind.subresources.iter().any(is_token) => Some(Self::Token),
            Post::Review => Some(Self::Access),
            Post::Create | Post::BindPod => None,
        }
    }

    /// Answers it.
    pub(crate) fn answer(self, call: &Call, reviewer: &Reviewer<'_>, body: &[u8]) -> Result<Answer, Status> {
        let body = question(call, body)?;
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

fn question(call: &Call, body: &[u8]) -> Result<Value, Status> {
    let resource = &call.resource;
    let (api_version, kind) = match &*call.path.subresource {
        "token" => ("authentication.k8s.io/v1".to_owned(), "TokenRequest"),
        _ => (resource.api_version(), &*resource.kind),
    };
    let question = document(call, body, (&api_version, kind))?;
    let kind = question["kind"].as_str().unwrap_or_default();
    if call.path.subresource.is_empty() && !kind.is_empty() && kind != &*call.resource.kind {
        return Err(Status::bad_request(format!("{kind} cannot be handled as a {}", call.resource.kind)));
    }
    Ok(question)
}
