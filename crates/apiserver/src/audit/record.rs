//! Collects the facts about one request, and writes the lines about it.
//!
//! **Invariant:** dropping a record logs the end of its request: a stream ends when its body is dropped, a request that
//! panicked ends while its future unwinds, and a request whose client disconnected ends at that time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use homeostat_core::Clock;
use http::{Response, header};
use jiff::{Timestamp, tz::TimeZone};
use serde::Deserialize;
use serde_json::{Value, json};

use super::body_text::{BodyText, ManagedFields};
use super::log_writer::AuditLog;
use super::policy::{AuditDecision, AuditLevel, AuditStage, AuditedRequest};
use crate::auth::Identity;
use crate::body::Body;

/// The maximum length of a user agent in bytes, as in Kubernetes, and the mark at the end of a longer one.
const USER_AGENT_BYTES_MAX: usize = 1024;
const TRUNCATED: &str = "...TRUNCATED";

/// The prefix of the protobuf media type.
const PROTOBUF: &[u8] = b"application/vnd.kubernetes.protobuf";

/// The facts of a request that are known when it arrives.
pub(crate) struct RequestFacts {
    pub(crate) audit_id: String,
    pub(crate) uri: String,
    pub(crate) user: Identity,
    pub(crate) source_ips: Vec<String>,
    pub(crate) user_agent: String,
    pub(crate) is_long_running: bool,
}

/// The record of one request.
pub(crate) struct AuditRecord {
    log: Arc<AuditLog>,
    clock: Clock,
    decision: AuditDecision,
    facts: RequestFacts,
    verb: String,
    received: Timestamp,
    learned: Mutex<LearnedFacts>,
    is_complete: bool,
}

/// The facts that become known while a request is processed.
#[derive(Default)]
struct LearnedFacts {
    /// Null for paths that are not resources.
    object_ref: Value,
    impersonated: Option<Identity>,
    request_object: Option<BodyText>,
    response_status: Option<Value>,
    response_object: Option<BodyText>,
    annotations: BTreeMap<String, String>,
}

impl LearnedFacts {
    /// Adds the facts about the object that are in the body to those in the path.
    fn set_names(&mut self, metadata: &NamedMetadata) {
        let NamedMetadata { name, namespace, uid, resource_version } = metadata;
        let fields =
            [("name", name), ("namespace", namespace), ("uid", uid), ("resourceVersion", resource_version)];
        for (field, text) in fields {
            if !text.is_empty() && self.object_ref.get(field).is_none() {
                self.object_ref[field] = text.as_str().into();
            }
        }
    }
}

/// The part of a body that names its object. The rest is skipped, and takes no memory.
#[derive(Default, Deserialize)]
struct NamedBody {
    #[serde(default)]
    metadata: NamedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NamedMetadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
}

impl AuditRecord {
    /// Begins the record of a request; `None` if the policy does not want one.
    pub(crate) fn begin(
        log: &Arc<AuditLog>,
        clock: Clock,
        request: &AuditedRequest<'_>,
        facts: impl FnOnce() -> RequestFacts,
    ) -> Option<Self> {
        let decision = log.decide(request);
        if decision.level == AuditLevel::None {
            return None;
        }
        let object_ref = request.resource.map_or(Value::Null, |asked| {
            let mut reference = json!({});
            let fields = [
                ("resource", asked.resource),
                ("namespace", asked.namespace),
                ("name", asked.name),
                ("apiGroup", asked.group),
                ("apiVersion", asked.version),
                ("subresource", asked.subresource),
            ];
            for (field, text) in fields.into_iter().filter(|(_, text)| !text.is_empty()) {
                reference[field] = text.into();
            }
            reference
        });
        Some(Self {
            log: Arc::clone(log),
            decision,
            facts: facts(),
            verb: request.verb.to_owned(),
            received: clock.now(),
            clock,
            learned: Mutex::new(LearnedFacts { object_ref, ..LearnedFacts::default() }),
            is_complete: false,
        })
    }

    /// Logs that the request arrived.
    pub(crate) async fn tell_received(&self) {
        self.tell(AuditStage::RequestReceived).await;
    }

    /// Returns the id of the request.
    pub(crate) fn id(&self) -> &str {
        &self.facts.audit_id
    }

    /// Records that the request impersonates another user.
    pub(crate) fn set_impersonated(&self, who: &Identity) {
        self.learned().impersonated = Some(who.clone());
    }

    /// Records the decision of the authorizer.
    pub(crate) fn set_decision(&self, is_allowed: bool, reason: &str) {
        let decision = if is_allowed { "allow" } else { "forbid" };
        self.annotate([
            ("authorization.k8s.io/decision".to_owned(), decision.to_owned()),
            ("authorization.k8s.io/reason".to_owned(), reason.to_owned()),
        ]);
    }

    /// Adds annotations. As in Kubernetes, the first value of a key wins.
    pub(crate) fn annotate(&self, annotations: impl IntoIterator<Item = (String, String)>) {
        let mut learned = self.learned();
        for (key, value) in annotations {
            learned.annotations.entry(key).or_insert(value);
        }
    }

    /// Returns whether bodies are kept, as text.
    pub(crate) fn keeps_bodies(&self) -> bool {
        self.decision.level >= AuditLevel::Request
    }

    /// Records the body of the request, and the object that it names. This reads the whole body, so it must be done with
    /// the capacity that the request waited for.
    pub(crate) fn set_request_body(&self, body: &[u8]) {
        let mut learned = self.learned();
        let wants_object = self.keeps_bodies();
        let wants_name = matches!(&*self.verb, "create" | "update") && learned.object_ref.is_object();
        if body.is_empty() || !(wants_object || wants_name) {
            return;
        }
        if !wants_object && let Ok(named) = serde_json::from_slice::<NamedBody>(body) {
            return learned.set_names(&named.metadata);
        }
        let Some(text) = BodyText::parse(body, self.managed_fields()) else { return };
        if wants_name && let Ok(named) = serde_json::from_slice::<NamedBody>(text.as_bytes()) {
            learned.set_names(&named.metadata);
        }
        learned.request_object = wants_object.then_some(text);
    }

    /// Logs the end of the request, now or when its body ends, and returns the response.
    pub(crate) async fn complete(mut self, response: Response<Body>) -> Response<Body> {
        self.observe_response(&response);
        if self.facts.is_long_running {
            self.tell(AuditStage::ResponseStarted).await;
        }
        let (head, body) = response.into_parts();
        let body = match body {
            // The record is dropped with the stream, and logs the end then.
            Body::Stream(pieces) => Body::Stream(pieces.inspect(move |_| self.keep()).boxed()),
            Body::List(pieces, kept) => Body::List(pieces.inspect(move |_| self.keep()).boxed(), kept),
            Body::Proxied(pieces) => Body::Proxied(pieces.inspect(move |_| self.keep()).boxed()),
            body => {
                self.is_complete = true;
                self.tell(AuditStage::ResponseComplete).await;
                body
            }
        };
        Response::from_parts(head, body)
    }

    /// Records the refusal of a request that never reached the API, in these stages.
    pub(super) fn end_refused(
        mut self,
        response: &Response<Body>,
        message: Option<&str>,
        stages: &[AuditStage],
    ) {
        self.is_complete = true;
        for stage in stages {
            if *stage != AuditStage::RequestReceived {
                self.observe_response(response);
                if let Some(message) = message {
                    let code = response.status().as_u16();
                    let status = json!({"metadata": {}, "message": message, "code": code});
                    self.learned().response_status = Some(status);
                }
            }
            if !self.decision.omit_stages.contains(stage) {
                self.log.try_write(self.line(*stage));
            }
        }
    }

    /// Does nothing. A closure that calls it owns the record.
    fn keep(&self) {
        let _ = &self.is_complete;
    }

    fn observe_response(&self, response: &Response<Body>) {
        let code = response.status().as_u16();
        let media = response.headers().get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes);
        let is_protobuf = media.is_some_and(|media| media.starts_with(PROTOBUF));
        let is_json = media == Some(b"application/json".as_slice());
        let wants_object = self.decision.level >= AuditLevel::RequestResponse;
        let text = match response.body() {
            Body::Full(bytes) if is_json && (wants_object || is_status(bytes)) => {
                BodyText::parse_json(bytes, self.managed_fields())
            }
            // A refusal is small, and is logged at every level.
            Body::Full(bytes) if is_protobuf && (wants_object || code >= 400) => {
                BodyText::parse(bytes, self.managed_fields())
            }
            _ => None,
        };
        let mut status = json!({"metadata": {}, "code": code});
        if let Some(told) = text.as_ref().and_then(BodyText::status) {
            for field in ["status", "message", "reason", "details"] {
                if let Some(value) = told.get(field) {
                    status[field] = value.clone();
                }
            }
        }
        let mut learned = self.learned();
        learned.response_status = Some(status);
        if wants_object && text.is_some() {
            learned.response_object = text;
        }
    }

    fn managed_fields(&self) -> ManagedFields {
        if self.decision.omit_managed_fields { ManagedFields::Omit } else { ManagedFields::Keep }
    }

    async fn tell(&self, stage: AuditStage) {
        if !self.decision.omit_stages.contains(&stage) {
            let line = self.line(stage);
            self.log.write(line).await;
        }
    }

    /// Returns the line for a stage, with its fields in Kubernetes' order.
    fn line(&self, stage: AuditStage) -> Vec<u8> {
        let learned = self.learned();
        let mut line = FieldWriter::new();
        line.field("kind", &"Event".into());
        line.field("apiVersion", &"audit.k8s.io/v1".into());
        line.field("level", &self.decision.level.name().into());
        line.field("auditID", &(&*self.facts.audit_id).into());
        line.field("stage", &stage.name().into());
        line.field("requestURI", &(&*self.facts.uri).into());
        line.field("verb", &(&*self.verb).into());
        line.field("user", &user_json(&self.facts.user));
        line.optional("impersonatedUser", learned.impersonated.as_ref().map(user_json).as_ref());
        line.field("sourceIPs", &json!(self.facts.source_ips));
        line.optional("userAgent", Some(&shortened(&self.facts.user_agent).into()).filter(|one| **one != ""));
        line.optional("objectRef", Some(&learned.object_ref).filter(|one| !one.is_null()));
        line.optional("responseStatus", learned.response_status.as_ref());
        if stage != AuditStage::RequestReceived {
            line.text("requestObject", learned.request_object.as_ref());
            line.text("responseObject", learned.response_object.as_ref());
        }
        line.field("requestReceivedTimestamp", &micro_time(self.received).into());
        line.field("stageTimestamp", &micro_time(self.clock.now()).into());
        if !learned.annotations.is_empty() {
            line.field("annotations", &json!(learned.annotations));
        }
        line.end()
    }

    fn learned(&self) -> MutexGuard<'_, LearnedFacts> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AuditRecord {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let stage = if std::thread::panicking() { AuditStage::Panic } else { AuditStage::ResponseComplete };
        let status = match stage {
            AuditStage::Panic => {
                json!({"metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
                "message": "the request caused a panic in the server"})
            }
            _ => {
                json!({"metadata": {}, "status": "Success", "message": "Connection closed early", "code": 200})
            }
        };
        let mut learned = self.learned();
        if stage == AuditStage::Panic || learned.response_status.is_none() {
            learned.response_status = Some(status);
        }
        drop(learned);
        if !self.decision.omit_stages.contains(&stage) {
            self.log.try_write(self.line(stage));
        }
    }
}

/// Writes the fields of an object in order.
struct FieldWriter(Vec<u8>);

impl FieldWriter {
    fn new() -> Self {
        Self(Vec::with_capacity(1024))
    }

    fn field(&mut self, name: &str, value: &Value) {
        self.json(name, value.to_string().as_bytes());
    }

    fn text(&mut self, name: &str, body: Option<&BodyText>) {
        if let Some(body) = body {
            self.json(name, body.as_bytes());
        }
    }

    fn json(&mut self, name: &str, json: &[u8]) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        for part in [b"\"", name.as_bytes(), b"\":", json] {
            self.0.extend_from_slice(part);
        }
    }

    fn optional(&mut self, name: &str, value: Option<&Value>) {
        if let Some(value) = value {
            self.field(name, value);
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

/// Returns whether the bytes are a Status. Those are small, and are logged at every level.
fn is_status(bytes: &[u8]) -> bool {
    const HEAD: &[u8] = br#"{"kind":"Status""#;
    bytes.starts_with(HEAD) || bytes.starts_with(br#"{"apiVersion":"v1","kind":"Status""#)
}

fn user_json(user: &Identity) -> Value {
    let mut told = json!({});
    if !user.name.is_empty() {
        told["username"] = (&*user.name).into();
    }
    if !user.uid.is_empty() {
        told["uid"] = (&*user.uid).into();
    }
    if !user.groups.is_empty() {
        told["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        told["extra"] = json!(user.extra);
    }
    told
}

fn shortened(user_agent: &str) -> String {
    if user_agent.len() <= USER_AGENT_BYTES_MAX {
        return user_agent.to_owned();
    }
    let end = (0..=USER_AGENT_BYTES_MAX).rev().find(|at| user_agent.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{TRUNCATED}", &user_agent[..end])
}

/// Formats a time as Kubernetes does in audit events.
fn micro_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}
