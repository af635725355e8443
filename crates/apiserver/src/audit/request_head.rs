//! Reads the audit log's facts from the head of a request, and records requests that never reach the API.
//!
//! A request that fails to authenticate gets one line, in the stage `ResponseStarted`; one that exceeds a limit gets
//! the two lines of every short request. Refusals never wait for the disk: if the log is full, their lines are
//! dropped and counted.

use std::net::IpAddr;
use std::sync::Arc;

use homeostat_core::{Clock, Entropy, Uid};
use http::{HeaderMap, Response, header};

use super::log_writer::AuditLog;
use super::policy::{AuditStage, AuditedRequest, AuditedResource};
use super::record::{AuditRecord, RequestFacts};
use crate::auth::{Identity, RequestAttributes};
use crate::body::Body;
use crate::refusal_log::{RefusalLog, RequestHead};
use crate::request::{PathTarget, Query, Verb, decode_path, verb_to_authorize};

impl RequestHead<'_> {
    /// Returns the id of the request: the caller's, or a new one.
    pub(crate) fn audit_id(&self, entropy: &Entropy) -> String {
        let given = text_of(self.headers, "audit-id").map(ToOwned::to_owned);
        given.unwrap_or_else(|| Uid::random(entropy).as_str().to_owned())
    }

    /// Begins the record of this request; `None` if the policy does not want one.
    pub(crate) fn begin_record(
        &self,
        log: &Arc<AuditLog>,
        (clock, entropy): (Clock, &Entropy),
        who: &Identity,
    ) -> Option<AuditRecord> {
        let decoded = decode_path(self.uri.path()).ok()?;
        let target = PathTarget::parse(&decoded);
        let query = Query::parse(self.uri.query());
        let method = self.method.as_str().to_ascii_lowercase();
        let mut request = AuditedRequest {
            user: &who.name,
            groups: &who.groups,
            verb: &method,
            resource: None,
            path: &decoded,
        };
        let name;
        if let PathTarget::Resource(path) = &target {
            let verb = verb_to_authorize(self.method, path, &query);
            name = path.authorized_name(verb, &query).into_owned();
            request.verb = verb.map_or("", Verb::name);
            let RequestAttributes::Resource { group, resource, subresource, namespace, .. } =
                path.attributes(request.verb, &name)
            else {
                return None;
            };
            let version = &path.version;
            request.resource =
                Some(AuditedResource { group, version, resource, subresource, namespace, name: &name });
        }
        let is_connection = request.resource.is_some_and(|one| is_connection(one.subresource));
        let is_log = request.resource.is_some_and(|one| (one.resource, one.subresource) == ("pods", "log"));
        let is_long_running = request.verb == "watch" || is_connection || is_log && query.flag("follow");
        let facts = || RequestFacts {
            audit_id: self.audit_id(entropy),
            uri: self.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str).to_owned(),
            user: who.clone(),
            source_ips: self.source_ips(),
            user_agent: text_of(self.headers, "user-agent").unwrap_or_default().to_owned(),
            is_long_running,
        };
        AuditRecord::begin(log, clock, &request, facts)
    }

    /// Returns the addresses of a client: those reported by the client and the proxies in between, then that of the
    /// connection.
    fn source_ips(&self) -> Vec<String> {
        let forwarded = text_of(self.headers, "x-forwarded-for").unwrap_or_default().split(',');
        let real = text_of(self.headers, "x-real-ip").unwrap_or_default();
        let told = forwarded.chain([real]).map(str::trim).filter(|text| text.parse::<IpAddr>().is_ok());
        let mut all = told.map(ToOwned::to_owned).collect::<Vec<_>>();
        if let Some(address) = self.address {
            let address = address.to_canonical().to_string();
            if all.last() != Some(&address) {
                all.push(address);
            }
        }
        all
    }

    /// Returns Kubernetes' message for failed authentication.
    fn failed_methods(&self) -> String {
        let authorization = text_of(self.headers, header::AUTHORIZATION.as_str()).unwrap_or_default();
        let method = authorization.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        match &*method {
            "basic" | "bearer" => format!("Authentication failed, attempted: {method}"),
            _ => "Authentication failed, no credentials provided".to_owned(),
        }
    }
}

/// The audit log of requests that are refused before they reach the API.
pub(crate) struct RefusalAudit {
    pub(crate) log: Arc<AuditLog>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
}

impl RefusalLog for RefusalAudit {
    fn record_unauthenticated(&self, head: RequestHead<'_>, response: &Response<Body>) {
        let nobody = Identity::default();
        if let Some(record) = head.begin_record(&self.log, (self.clock, &self.entropy), &nobody) {
            record.end_refused(response, Some(&head.failed_methods()), &[AuditStage::ResponseStarted]);
        }
    }

    fn record_limited(&self, head: RequestHead<'_>, who: &Identity, response: &Response<Body>) {
        if let Some(record) = head.begin_record(&self.log, (self.clock, &self.entropy), who) {
            let stages = [AuditStage::RequestReceived, AuditStage::ResponseComplete];
            record.end_refused(response, None, &stages);
        }
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns whether a subresource is a connection, which lasts until its client closes it.
fn is_connection(subresource: &str) -> bool {
    matches!(subresource, "attach" | "exec" | "portforward" | "proxy")
}
