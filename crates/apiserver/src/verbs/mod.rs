//! Implements the verbs, one per file. An [`AuthorizedRequest`] is an authorized request for one resource; each verb
//! turns it into an [`Answer`].
//!
//! The writing verbs share [`decode_body`] (from body to object) and [`pipeline`] (everything that follows, in order).
//! All verbs share [`answer`] (from object to response in the requested form).

mod answer;
mod create;
mod create_review;
mod decode_body;
mod delete;
mod delete_collection;
mod exec_attach_port_forward;
mod get;
mod list;
mod list_items;
mod log;
mod options;
mod patch;
mod patched_type;
mod pipeline;
mod pod_actions;
mod proxy;
mod request_selectors;
mod scale;
mod subresource;
mod update;
mod watch;
mod watch_options;

use std::sync::Arc;

use bytes::Bytes;
use homeostat_api::negotiate::{AnswerEncoding, Representation};
use homeostat_api::object::memory::memory_of_json;
use homeostat_api::resource::Resource;
use homeostat_api::resource::declaration::PostAction;
use homeostat_api::resource::strategy::{Strategy, strategy};
use homeostat_api::status::Status;
use homeostat_core::{Key, Prefix};
use homeostat_store::Entry;
use http::HeaderMap;

pub(crate) use answer::{Answer, add_warning, refusal_response};
pub(crate) use create_review::ReviewRequest;
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, PropagationPolicy, remove};

use crate::admission::{Admission, AdmissionWarnings};
use crate::auth::Identity;
use crate::backend::{Backend, key_of};
use crate::expensive_requests::{EXPENSIVE_BYTES, RequestCost, UserQueue};
use crate::request::{Query, ResourcePath, Verb};
use crate::serve::SlotHandle;
use crate::stored::convert;
use crate::streams::http_proxy::ProxiedRequest;
use crate::write_history::{RecordedWrite, agent_text, verb_name};

/// For smaller texts, it is not worth computing the memory: it is a hundred times their size at worst.
const SMALL_BYTES: usize = 4 * 1024;
/// The maximum memory that a list is charged for: such a list must wait until it runs alone.
const LIST_MEMORY_MAX: usize = 64 * 1024 * 1024;
/// Longer lists are expensive if each object is parsed: a few milliseconds of work.
const EXPENSIVE_LIST_LENGTH: usize = 1000;

/// An authorized request for one resource.
pub(crate) struct AuthorizedRequest {
    pub(crate) backend: Arc<Backend>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) who: Identity,
    pub(crate) headers: HeaderMap,
    pub(crate) accepted: Representation,
    /// The verb of the request.
    pub(crate) verb: Verb,
    /// Whether its connection can switch to another protocol.
    pub(crate) can_upgrade: bool,
    /// Whether the server keeps an audit log.
    pub(crate) has_audit_log: bool,
    /// Whether each attempt is expensive. If so, there are only a few.
    pub(crate) is_expensive: bool,
    /// Warnings from admission for the client, sent whether or not the request succeeds.
    pub(crate) warnings: Arc<AdmissionWarnings>,
    /// Its slot among the requests in flight, if it came over the network.
    pub(crate) slot: Option<SlotHandle>,
    /// The original request, if it is forwarded to a Pod.
    pub(crate) proxied: Option<ProxiedRequest>,
    /// The queue for expensive work that is done while the response is sent.
    pub(crate) queue: UserQueue,
}

impl AuthorizedRequest {
    /// Returns the key of the object that the path names.
    fn key(&self) -> Key {
        key_of(&self.resource, &self.path.namespace, &self.path.name)
    }

    /// Returns the prefix of the objects that the path names.
    fn prefix(&self) -> Prefix {
        let storage = self.resource.storage();
        if self.resource.namespaced && !self.path.namespace.is_empty() {
            storage.prefix_in(&self.path.namespace)
        } else {
            storage.prefix()
        }
    }

    fn strategy(&self) -> &'static Strategy {
        strategy(&self.resource)
    }

    /// Returns the cost of the request: that of its body and of the object it changes, or that of the objects in a
    /// list.
    pub(crate) fn cost(&self, body: &Bytes) -> RequestCost {
        match self.verb {
            // It waits for other programs, and must not do so while holding a slot in the queue. The objects that it
            // reads first are read there one by one.
            _ if self.proxied.is_some() => return RequestCost::default(),
            Verb::Get => return self.get_cost(),
            Verb::List => return self.list_cost(),
            Verb::Watch => return RequestCost::default(),
            _ => {}
        }
        let own = text_cost(body);
        let is_change = !self.path.name.is_empty() && matches!(self.verb, Verb::Patch | Verb::Update);
        let stored = is_change.then(|| self.backend.store.snapshot().get(&self.key()).cloned()).flatten();
        let stored = stored.map(|entry| text_cost(&entry.bytes)).unwrap_or_default();
        RequestCost { bytes: own.bytes.max(stored.bytes), memory: own.memory + stored.memory }
    }

    /// Returns the cost of reading an object that is not sent as it is stored.
    fn get_cost(&self) -> RequestCost {
        let snapshot = self.backend.store.snapshot();
        let Some(entry) = snapshot.get(&self.key()).filter(|entry| entry.bytes.len() >= SMALL_BYTES) else {
            return RequestCost::default();
        };
        let is_stored = self.wants_bytes() && self.path.subresource.is_empty();
        if is_stored && convert::is_current(&self.resource, entry) {
            return RequestCost::default();
        }
        text_cost(&entry.bytes)
    }

    /// Returns the cost of a list whose objects are parsed, or that is built as a whole before it is sent.
    fn list_cost(&self) -> RequestCost {
        let is_encoded = self.accepted.media != AnswerEncoding::Json || self.accepted.pretty;
        let is_whole = is_encoded || self.has_converter();
        let is_selected = self.query.has("labelSelector") || self.query.has("fieldSelector");
        if !(is_whole || is_selected) {
            return RequestCost::default();
        }
        // Labels are kept next to the objects; everything else requires parsing them.
        let are_parsed = is_whole || request_selectors::looks_into_objects(self.query.get("fieldSelector"));
        let snapshot = self.backend.store.snapshot();
        let (mut count, mut bytes) = (0, 0);
        for entry in snapshot.range(&self.prefix(), "") {
            count += 1;
            bytes += entry.bytes.len();
            if bytes >= LIST_MEMORY_MAX || !are_parsed && count > EXPENSIVE_LIST_LENGTH {
                break;
            }
        }
        match (are_parsed, count > EXPENSIVE_LIST_LENGTH) {
            (true, is_long) => {
                let least = if is_long { EXPENSIVE_BYTES } else { 0 };
                RequestCost { bytes: bytes.max(least), memory: if is_whole { bytes } else { 0 } }
            }
            (false, true) => RequestCost { bytes: EXPENSIVE_BYTES, memory: 0 },
            (false, false) => RequestCost::default(),
        }
    }

    /// Checks that the user may create the object. A write that creates an object requires this regardless of its verb.
    fn check_may_create(&self) -> Result<(), Status> {
        let attributes = self.path.attributes(Verb::Create.name(), &self.path.name);
        self.backend.authorizer.authorize(&self.who, &attributes)
    }

    /// Records who wrote the object, and its states before and after.
    fn record_write(&self, before: Option<&Arc<Entry>>, after: Option<&Arc<Entry>>) {
        let Some(stored) = after.or(before).map(|entry| &entry.key) else { return };
        // The name that the API uses: custom objects are stored under a name that is unique to their definition.
        let target = Key::new(&self.resource.group, &self.resource.plural, stored.namespace(), stored.name());
        self.backend.writes.record(RecordedWrite {
            at: self.backend.clock.now(),
            user: self.who.name.clone(),
            agent: agent_text(self.headers.get(http::header::USER_AGENT)),
            verb: verb_name(self.verb.name(), &self.headers),
            target,
            subresource: self.path.subresource.clone(),
            manager: self.query.get("fieldManager").to_owned(),
            before: before.cloned(),
            after: after.cloned(),
            refusal: None,
        });
    }

    /// Returns an entry as this version shows it, converted by the webhook of its definition if necessary.
    async fn converted(&self, entry: &Arc<Entry>) -> Result<Arc<Entry>, Status> {
        if !self.has_converter() {
            return Ok(Arc::clone(entry));
        }
        let converted = self.converted_all(vec![Arc::clone(entry)]).await?;
        Ok(converted.into_iter().next().unwrap_or_else(|| Arc::clone(entry)))
    }

    /// Returns entries as this version shows them.
    async fn converted_all(&self, entries: Vec<Arc<Entry>>) -> Result<Vec<Arc<Entry>>, Status> {
        // This is boxed because hardly any call has a converter, and otherwise every call would be as large as if it
        // had one.
        Box::pin(self.backend.conversions.entries(&self.resource, entries, self.slot.as_ref())).await
    }

    /// Returns whether a webhook converts the objects of this resource.
    fn has_converter(&self) -> bool {
        self.resource.custom().is_some_and(|custom| custom.conversion.is_some())
    }

    /// Encodes an object of this version for the store.
    async fn stored_value(&self, object: &serde_json::Value) -> Result<homeostat_store::Value, Status> {
        if !self.has_converter() {
            return Ok(convert::encode_from_version(&self.resource, object));
        }
        Box::pin(self.backend.conversions.encode(&self.resource, object, self.slot.as_ref())).await
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.resource.about(&self.path.name))
    }

    /// Runs the verb of the call.
    pub(crate) async fn run(self, body: Bytes) -> Result<Answer, Status> {
        let handshake = self.message_handshake();
        let answer = self.run_verb(body).await?;
        match handshake {
            Some(handshake) => answer.into_messages(&handshake),
            None => Ok(answer),
        }
    }

    async fn run_verb(self, body: Bytes) -> Result<Answer, Status> {
        if !self.path.subresource.is_empty() {
            return subresource::handle_subresource(self, body).await;
        }
        match (self.verb, self.path.name.is_empty()) {
            (Verb::List, _) => list::list(&self).await,
            (Verb::Watch, _) => watch::watch(self),
            (Verb::Get, _) => get::get(&self).await,
            (Verb::Create, false) if self.resource.is_custom() => create::create(&self, &body).await,
            (Verb::Create, true)
                if self.resource.declaration().is_some_and(|kind| kind.post == PostAction::BindPod) =>
            {
                pod_actions::bind_named(self, &body).await
            }
            (Verb::Create, true) => create::create(&self, &body).await,
            (Verb::Update, false) => update::update(&self, &body).await,
            (Verb::Patch, false) => patch::patch(&self, &body).await,
            (Verb::Delete, false) => delete::delete(&self, &body).await,
            (Verb::DeleteCollection, true) => delete_collection::delete_collection(&self, &body).await,
            _ => Err(Status::method_not_allowed()),
        }
    }
}

/// Returns the cost of processing a JSON text.
fn text_cost(text: &[u8]) -> RequestCost {
    let memory = if text.len() < SMALL_BYTES { 0 } else { memory_of_json(text) };
    RequestCost { bytes: text.len(), memory }
}
