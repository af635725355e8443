//! Serves the history of an object to callers who may get it, and records refused writes.

use homeostat_api::kinds::core::namespace::NAMESPACE;
use homeostat_api::status::Status;
use homeostat_core::Key;
use homeostat_core::write_history::{ObjectHistory, Refusal};
use http::request::Parts;
use http::{Method, Response, header};
use jiff::Timestamp;

use super::{ApiServer, json_response, text_response};
use crate::auth::{ANONYMOUS, Identity, RequestAttributes, impersonate};
use crate::body::Body;
use crate::field_fights;
use crate::request::{PathTarget, Query, Verb, decode_path, refusal_representation, verb_of_request};
use crate::stored::encode;
use crate::verbs::{AuthorizedRequest, refusal_response};
use crate::write_history::{FIGHTS_PATH, MESSAGE_LETTERS_MAX, RecordedWrite, agent_text, verb_name};
use bytes::Bytes;

/// The maximum size of a create request's body that is kept in order to find its name.
const CREATED_BYTES_MAX: usize = 64 * 1024;

impl ApiServer {
    /// Responds with who wrote an object, and what the operators in this process did about it. Callers who may not get
    /// the object learn nothing about it, as if it did not exist.
    pub(super) fn answer_history(
        &self,
        path: &str,
        parts: &Parts,
        query: &Query,
        who: &Identity,
    ) -> Result<Response<Body>, Status> {
        if parts.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        if path == FIGHTS_PATH {
            return self.answer_fights(parts, who);
        }
        let backend = &self.shared.backend;
        let field = |name: &str| query.get(name);
        let object = Key::new(field("group"), field("resource"), field("namespace"), field("name"));
        let other = impersonate(&parts.headers, who, &get_attributes(&object), &backend.authorizer)?;
        let who = other.as_ref().unwrap_or(who);
        let may_get = |key: &Key| backend.authorizer.decide(who, &get_attributes(key)).is_allowed();
        let mut history = if object.is_well_formed() && may_get(&object) {
            backend.writes.about(&object, may_get)
        } else {
            ObjectHistory::default()
        };
        // A namespace that was deleted and re-created may belong to a different user.
        let since = self.namespace_creation(object.namespace());
        history.writes.retain(|write| since.is_none_or(|since| write.at >= since));
        Ok(json_response(&serde_json::json!(history)))
    }

    /// Responds with the fields that writers change back and forth, for objects that the caller may get.
    fn answer_fights(&self, parts: &Parts, who: &Identity) -> Result<Response<Body>, Status> {
        let backend = &self.shared.backend;
        let what = RequestAttributes::Path { verb: "get", path: FIGHTS_PATH };
        let other = impersonate(&parts.headers, who, &what, &backend.authorizer)?;
        let who = other.as_ref().unwrap_or(who);
        let may_get = |key: &Key| backend.authorizer.decide(who, &get_attributes(key)).is_allowed();
        let recent = backend.writes.since(backend.clock.now() - field_fights::WINDOW);
        let fights = field_fights::find_fights(recent, may_get);
        Ok(json_response(&serde_json::json!({"fights": fights})))
    }

    /// Returns when the namespace was created; `None` if it does not exist.
    fn namespace_creation(&self, namespace: &str) -> Option<Timestamp> {
        let entry =
            self.shared.backend.store.snapshot().get(&NAMESPACE.storage().key("", namespace)).cloned()?;
        encode::parse_entry(&entry)["metadata"]["creationTimestamp"].as_str()?.parse().ok()
    }

    /// Responds with a refusal, and records it if the request was a write.
    pub(super) fn refuse(&self, parts: &Parts, status: &Status) -> Response<Body> {
        self.record_refusal(parts, "", status);
        if status.is_plain {
            return text_response(status.code, &status.message);
        }
        refusal_response(status, refusal_representation(parts))
    }

    /// Records a refused write to a named object; `created` is the name in the body of a create request. Anonymous
    /// users are not worth remembering.
    pub(super) fn record_refusal(&self, parts: &Parts, created: &str, status: &Status) {
        if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return;
        }
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let Ok(decoded) = decode_path(parts.uri.path()) else { return };
        let PathTarget::Resource(path) = PathTarget::parse(&decoded) else { return };
        let query = Query::parse(parts.uri.query());
        let Some(verb) = verb_of_request(&parts.method, &path, &query) else { return };
        // For clients that send protobuf, the name comes from the refusal.
        let told = status.details.as_ref().filter(|details| details.kind == path.resource);
        let told = told.map_or("", |details| details.name.as_str());
        let names = [path.name.as_str(), created, told];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        if name.is_empty() || who.name == ANONYMOUS || query.has("dryRun") {
            return;
        }
        self.shared.backend.writes.record(RecordedWrite {
            at: self.shared.backend.clock.now(),
            user: who.name.clone(),
            agent: agent_text(parts.headers.get(header::USER_AGENT)),
            verb: verb_name(verb.name(), &parts.headers),
            target: Key::new(&path.group, &path.resource, &path.namespace, name),
            subresource: path.subresource,
            manager: query.get("fieldManager").to_owned(),
            before: None,
            after: None,
            refusal: Some(Refusal {
                code: status.code,
                message: status.message.chars().take(MESSAGE_LETTERS_MAX).collect(),
            }),
        });
    }
}

/// The body of a create request, which contains the name of the object, kept in case the request is refused.
pub(super) struct CreatedBody(Bytes);

impl CreatedBody {
    /// Keeps the body of a create request, unless it is large: it would stay in memory for as long as the request.
    pub(super) fn keep(call: &AuthorizedRequest, body: &Bytes) -> Self {
        let is_kept =
            call.verb == Verb::Create && call.path.name.is_empty() && body.len() <= CREATED_BYTES_MAX;
        Self(if is_kept { body.clone() } else { Bytes::new() })
    }

    /// Returns the name of the object; empty if the body is not JSON or contains no valid name.
    pub(super) fn name(&self) -> String {
        #[derive(serde::Deserialize)]
        struct NamedObject {
            metadata: NamedMetadata,
        }
        #[derive(serde::Deserialize)]
        struct NamedMetadata {
            name: String,
        }
        let named = serde_json::from_slice::<NamedObject>(&self.0);
        let name = named.map(|named| named.metadata.name).unwrap_or_default();
        if Key::new("", "objects", "", &name).is_well_formed() { name } else { String::new() }
    }
}

fn get_attributes(key: &Key) -> RequestAttributes<'_> {
    let is_namespace = key.resource() == "namespaces" && key.group().is_empty();
    RequestAttributes::Resource {
        verb: "get",
        group: key.group(),
        resource: key.resource(),
        subresource: "",
        namespace: if is_namespace { key.name() } else { key.namespace() },
        name: key.name(),
    }
}
