//! Determines who acts in a request and whether they are allowed to, and records it in the audit log.

use homeostat_api::status::Status;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderValue, Response};

use super::ApiServer;
use crate::audit::AuditRecord;
use crate::auth::{Decision, Identity, RequestAttributes, impersonate};
use crate::body::Body;
use crate::refusal_log::RequestHead;
use crate::serve::ClientAddress;

impl ApiServer {
    /// Begins the record of a request; `None` if there is no audit log, or its policy does not want one.
    pub(super) async fn begin_audit(&self, parts: &Parts) -> Option<AuditRecord> {
        let log = self.shared.audit.as_ref()?;
        let backend = &self.shared.backend;
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let record = head_of(parts).begin_record(log, (backend.clock, &backend.entropy), who)?;
        record.tell_received().await;
        Some(record)
    }

    /// Gives every response an audit id: the caller's, or a new one.
    pub(super) fn add_audit_id(
        &self,
        parts: &Parts,
        record: Option<&AuditRecord>,
        response: &mut Response<Body>,
    ) {
        let id = match record {
            Some(record) => HeaderValue::from_str(record.id()).ok(),
            None => HeaderValue::from_str(&head_of(parts).audit_id(&self.shared.backend.entropy)).ok(),
        };
        if let Some(id) = id {
            response.headers_mut().insert(HeaderName::from_static("audit-id"), id);
        }
    }

    /// Returns the user that a request acts as: its sender, or the user that it impersonates.
    pub(super) fn acting_user(
        &self,
        parts: &Parts,
        what: &RequestAttributes<'_>,
        record: Option<&AuditRecord>,
    ) -> Result<Identity, Status> {
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let other = impersonate(&parts.headers, who, what, &self.shared.backend.authorizer)?;
        if let (Some(record), Some(other)) = (record, &other) {
            record.set_impersonated(other);
        }
        Ok(other.unwrap_or_else(|| who.clone()))
    }

    /// Refuses the request if the user may not do this, and records the decision.
    pub(super) fn authorize(
        &self,
        who: &Identity,
        what: &RequestAttributes<'_>,
        record: Option<&AuditRecord>,
    ) -> Result<(), Status> {
        let authorizer = &self.shared.backend.authorizer;
        if let Some(record) = record {
            match authorizer.decide(who, what) {
                Decision::Allow(reason) => record.set_decision(true, &reason),
                Decision::NoOpinion => {
                    record.set_decision(false, &authorizer.describe_missing_roles(who, what));
                }
            }
        }
        authorizer.authorize(who, what)
    }

    /// Refuses the request if the user may not access a path that is not a resource.
    pub(super) fn authorize_path(
        &self,
        parts: &Parts,
        path: &str,
        record: Option<&AuditRecord>,
    ) -> Result<(), Status> {
        let verb = parts.method.as_str().to_ascii_lowercase();
        let what = RequestAttributes::Path { verb: &verb, path };
        self.authorize(&self.acting_user(parts, &what, record)?, &what, record)
    }
}

fn head_of(parts: &Parts) -> RequestHead<'_> {
    let address = parts.extensions.get::<ClientAddress>().map(|ClientAddress(address)| *address);
    RequestHead { method: &parts.method, uri: &parts.uri, headers: &parts.headers, address }
}
