//! One verb per file. A [`Call`] is an authorized request for one resource; each verb turns it into an [`Answer`].
//!
//! Shared by the writing verbs: [`decode_body`] (from body to object), [`pipeline`] (everything that follows, in
//! order). Shared by all: [`answer`] (from object to response in the requested form).

mod answer;
mod create;
mod decode_body;
mod delete;
mod delete_collection;
mod get;
mod list;
mod list_items;
mod log;
mod options;
mod patch;
mod patched_type;
mod pipeline;
mod pod_actions;
mod request_selectors;
mod review;
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
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, PropagationPolicy, remove};
pub(crate) use review::ReviewRequest;

use crate::admission::{Admission, AdmissionWarnings};
use crate::auth::Identity;
use crate::backend::{Backend, key_of};
use crate::expensive::{EXPENSIVE_BYTES, RequestCost, UserQueue};
use crate::request::{Query, ResourcePath, Verb};
use crate::serve::SlotHandle;
use crate::stored::convert;
use crate::write_history::{KeptWrite, agent_text, verb_name};

/// The memory of smaller texts is not worth computing: a hundred times their size at worst.
const SMALL_BYTES: usize = 4 * 1024;
/// The largest memory that a list is charged for: it must wait until it runs alone.
const LIST_MEMORY_MAX: usize = 64 * 1024 * 1024;
/// Longer lists are expensive if each object is parsed: some milliseconds of work.
const EXPENSIVE_LIST_LENGTH: usize = 1000;

/// An authorized request for one resource.
pub(crate) struct Call {
    pub(crate) backend: Arc<Backend>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) who: Identity,
    pub(crate) headers: HeaderMap,
    pub(crate) accepted: Representation,
    /// What it does.
    pub(crate) verb: Verb,
    /// Whether each attempt is expensive. Then there are few.
    pub(crate) is_expensive: bool,
    /// Warnings of admission for the client, whatever becomes of the request.
    pub(crate) warnings: Arc<AdmissionWarnings>,
    /// Its slot among the requests in flight, if it came over the network.
    pub(crate) slot: Option<SlotHandle>,
    /// The queue for expensive work that is done while the answer is sent.
    pub(crate) queue: UserQueue,
}

impl Call {
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

    /// Returns the cost of the request: of the body and the object that it changes, or of the objects of a list.
    pub(crate) fn cost(&self, body: &Bytes) -> RequestCost {
        match self.verb {
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

    /// Returns the cost of an object that is not sent as it is stored.
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
        let is_whole = self.accepted.media != AnswerEncoding::Json || self.accepted.pretty;
        let is_selected = self.query.has("labelSelector") || self.query.has("fieldSelector");
        if !(is_whole || is_selected) {
            return RequestCost::default();
        }
        // Labels are kept beside the objects; everything else requires parsing them.
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

    /// Checks that the user may create the object, which a write that creates needs, whatever its verb.
    fn check_may_create(&self) -> Result<(), Status> {
        let attributes = self.path.attributes(Verb::Create.name(), &self.path.name);
        self.backend.authorizer.authorize(&self.who, &attributes)
    }

    /// Keeps who wrote the object, and its states before and after.
    fn record_write(&self, before: Option<&Arc<Entry>>, after: Option<&Arc<Entry>>) {
        let Some(stored) = after.or(before).map(|entry| &entry.key) else { return };
        // As the API calls it: custom objects are stored under a name that their definition alone has.
        let target = Key::new(&self.resource.group, &self.resource.plural, stored.namespace(), stored.name());
        self.backend.writes.record(KeptWrite {
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

    fn not_found(&self) -> Status {
        Status::not_found(&self.resource.about(&self.path.name))
    }

    /// Runs its verb.
    pub(crate) async fn run(self, body: Bytes) -> Result<Answer, Status> {
        if !self.path.subresource.is_empty() {
            return subresource::handle_subresource(self, body).await;
        }
        match (self.verb, self.path.name.is_empty()) {
            (Verb::List, _) => list::list(&self),
            (Verb::Watch, _) => watch::watch(self),
            (Verb::Get, _) => get::get(&self),
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

/// Returns the cost of processing a text.
fn text_cost(text: &[u8]) -> RequestCost {
    let memory = if text.len() < SMALL_BYTES { 0 } else { memory_of_json(text) };
    RequestCost { bytes: text.len(), memory }
}
