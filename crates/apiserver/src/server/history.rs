//! The history of an object, for those who may get it; and what is kept of refused writes.

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
use crate::request::{PathTarget, Query, Verb, decode_path, refusal_representation};
use crate::stored::encode;
use crate::verbs::refusal_response;
use crate::write_history::{KeptWrite, MESSAGE_LETTERS_MAX, agent_text, verb_name};

impl ApiServer {
    /// Answers who wrote an object, and what the operators of this process did about it. Callers who may not get it are
    /// told that nothing is known, as for an object that does not exist.
    pub(super) fn answer_history(
        &self,
        parts: &Parts,
        query: &Query,
        who: &Identity,
    ) -> Result<Response<Body>, Status> {
        if parts.method != Method::GET {
            return Err(Status::method_not_allowed());
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
        // A namespace that was deleted and created again may belong to somebody else.
        let since = self.namespace_creation(object.namespace());
        history.writes.retain(|write| since.is_none_or(|since| write.at >= since));
        Ok(json_response(&serde_json::json!(history)))
    }

    /// Returns when the namespace was created; `None` if there is none.
    fn namespace_creation(&self, namespace: &str) -> Option<Timestamp> {
        let entry =
            self.shared.backend.store.snapshot().get(&NAMESPACE.storage().key("", namespace)).cloned()?;
        encode::decode(&entry)["metadata"]["creationTimestamp"].as_str()?.parse().ok()
    }

    /// Answers with a refusal, and keeps it if it was a write.
    pub(super) fn refuse(&self, parts: &Parts, status: &Status) -> Response<Body> {
        self.record_refusal(parts, status);
        if status.is_plain {
            return text_response(status.code, &status.message);
        }
        refusal_response(status, refusal_representation(parts))
    }

    /// Keeps a refused write of a named object. Strangers are not worth remembering.
    pub(super) fn record_refusal(&self, parts: &Parts, status: &Status) {
        if matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return;
        }
        let who = parts.extensions.get::<Identity>().unwrap_or(&self.identity);
        let Ok(decoded) = decode_path(parts.uri.path()) else { return };
        let PathTarget::Resource(path) = PathTarget::parse(&decoded) else { return };
        let query = Query::parse(parts.uri.query());
        let Some(verb) = Verb::of_request(&parts.method, &path, &query) else { return };
        if path.name.is_empty() || who.name == ANONYMOUS || query.has("dryRun") {
            return;
        }
        self.shared.backend.writes.record(KeptWrite {
            at: self.shared.backend.clock.now(),
            user: who.name.clone(),
            agent: agent_text(parts.headers.get(header::USER_AGENT)),
            verb: verb_name(verb.name(), &parts.headers),
            target: Key::new(&path.group, &path.resource, &path.namespace, &path.name),
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
