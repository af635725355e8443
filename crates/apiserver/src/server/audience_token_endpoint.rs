//! Serves `POST /homeostat/audience-token?audience=…`, which issues a token with which the caller can prove their
//! identity to an operator.

use homeostat_api::status::Status;
use http::request::Parts;
use http::{Method, Response};

use super::{ApiServer, json_response};
use crate::audit::AuditRecord;
use crate::auth::{ANONYMOUS, AUDIENCE_PREFIX, AUDIENCE_TOKEN_LIFETIME, Identity, RequestAttributes};
use crate::body::Body;
use crate::request::Query;

/// The path at which tokens are issued.
pub(super) const PATH: &str = "/homeostat/audience-token";

impl ApiServer {
    /// Issues a token for the caller. It grants nothing that the caller does not already have, so every authenticated
    /// user may request one.
    pub(super) fn issue_audience_token(
        &self,
        parts: &Parts,
        query: &Query,
        sender: &Identity,
        audit: Option<&AuditRecord>,
    ) -> Result<Response<Body>, Status> {
        if parts.method != Method::POST {
            return Err(Status::method_not_allowed());
        }
        let what = RequestAttributes::Path { verb: "post", path: PATH };
        let who = self.acting_user(parts, &what, audit)?;
        if who.name == ANONYMOUS {
            return Err(Status::unauthorized());
        }
        let token = self.shared.authenticator.issue_audience_token(sender, &who, query.get("audience"));
        let token = token.ok_or_else(|| {
            Status::bad_request(format!("the audience must begin with {AUDIENCE_PREFIX:?}"))
        })?;
        let seconds = AUDIENCE_TOKEN_LIFETIME.as_secs();
        Ok(json_response(&serde_json::json!({"token": token, "expirationSeconds": seconds})))
    }
}
