//! Serves the paths under `/homeostat/`, which Kubernetes does not have.

use homeostat_api::status::Status;
use http::Response;
use http::request::Parts;

use super::{ApiServer, audience_token_endpoint};
use crate::audit::AuditRecord;
use crate::auth::Identity;
use crate::body::Body;
use crate::expensive_requests::{EXPENSIVE_BYTES, RequestCost};
use crate::request::Query;

impl ApiServer {
    /// Handles a request for one of these paths; `None` for any other.
    pub(super) async fn answer_own_path(
        &self,
        path: &str,
        parts: &Parts,
        query: &Query,
        who: &Identity,
        audit: Option<&AuditRecord>,
    ) -> Option<Result<Response<Body>, Status>> {
        if path == audience_token_endpoint::PATH {
            return Some(self.issue_audience_token(parts, query, who, audit));
        }
        if !crate::write_history::PATHS.contains(&path) {
            return None;
        }
        // This parses and compares states, so it must never run on a serving thread.
        let cost = RequestCost { bytes: EXPENSIVE_BYTES, memory: EXPENSIVE_BYTES };
        let queue = self.shared.expensive.user_queue(who);
        Some(queue.run_when_permitted(cost, || self.answer_history(path, parts, query, who)).await)
    }
}
