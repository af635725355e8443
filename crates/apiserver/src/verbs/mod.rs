//! One verb per file. A [`Call`] is an authorised request for one resource; each verb turns it into an [`Answer`].
//!
//! Shared by the writing verbs: [`decode_body`] (body to normal object), [`pipeline`] (everything that follows, in order).
//! Shared by all: [`answer`] (object to response in the form the client asked for).

mod answer;
mod create;
mod decode_body;
mod delete;
mod delete_collection;
mod get;
mod items;
mod list;
mod log;
mod options;
mod patch;
mod patched;
mod pipeline;
mod pod;
mod review;
mod scale;
mod select;
mod subresource;
mod update;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use homeostat_core::{Key, Prefix};
use http::HeaderMap;

pub(crate) use answer::{Answer, failure, warn};
pub(crate) use delete::{DeleteOptions, FOREGROUND, ORPHAN, Policy, remove};
pub(crate) use pipeline::stamp_new;
pub(crate) use review::Review;

use crate::auth::Identity;
use crate::backend::{Backend, key_of};
use crate::convert;
use crate::heavy::{HEAVY_BYTES, Lane, Weight};
use crate::kinds::declaration::Post;
use crate::kinds::strategy::{Strategy, strategy};
use crate::negotiate::{Media, Representation};
use crate::object::memory::memory_of_json;
use crate::request::{Query, ResourcePath, Verb};
use crate::resource::Resource;
use crate::status::Status;

/// Texts smaller than this take no more memory than is worth finding out: a hundred times themselves at worst.
const SMALL_BYTES: usize = 4 * 1024;
/// No list is weighed beyond this: it has to wait until it is alone.
const LIST_MEMORY_MAX: usize = 64 * 1024 * 1024;
/// Lists longer than this are heavy if each object is looked into: some milliseconds' work.
const LIST_LENGTH_HEAVY: usize = 1000;

/// An authorised request for one resource.
pub(crate) struct Call {
    pub(crate) backend: Arc<Backend>,
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
    pub(crate) query: Query,
    pub(crate) who: Identity,
    pub(crate) headers: HeaderMap,
    pub(crate) accepted: Representation,
    /// What it does.
    pub(crate) verb: Verb,
    /// Is each attempt much work? Then there are few.
    pub(crate) is_heavy: bool,
    /// Where what is made while it is sent waits, if it is much work.
    pub(crate) lane: Lane,
}

impl Call {
    /// The key of the object the path names.
    fn key(&self) -> Key {
        key_of(&self.resource, &self.path.namespace, &self.path.name)
    }

    /// The objects the path means.
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

    /// How much there is to think about: the body, and the object it is a change of; or the objects of a list.
    pub(crate) fn weight(&self, body: &Bytes) -> Weight {
        match self.verb {
            Verb::Get => return self.get_weight(),
            Verb::List => return self.list_weight(),
            Verb::Watch => return Weight::default(),
            _ => {}
        }
        let own = text_weight(body);
        let is_change = !self.path.name.is_empty() && matches!(self.verb, Verb::Patch | Verb::Update);
        let stored = is_change.then(|| self.backend.store.snapshot().get(&self.key()).cloned()).flatten();
        let stored = stored.map(|entry| text_weight(&entry.bytes)).unwrap_or_default();
        Weight { bytes: own.bytes.max(stored.bytes), memory: own.memory + stored.memory }
    }

    /// An object that is not sent as it is stored.
    fn get_weight(&self) -> Weight {
        let snapshot = self.backend.store.snapshot();
        let Some(entry) = snapshot.get(&self.key()).filter(|entry| entry.bytes.len() >= SMALL_BYTES) else {
            return Weight::default();
        };
        let is_stored = self.wants_bytes() && self.path.subresource.is_empty();
        if is_stored && convert::is_current(&self.resource, entry) {
            return Weight::default();
        }
        text_weight(&entry.bytes)
    }

    /// Lists whose objects are looked into, or that are made whole before they are sent.
    fn list_weight(&self) -> Weight {
        let is_whole = self.accepted.media != Media::Json || self.accepted.pretty;
        let is_selected = self.query.has("labelSelector") || self.query.has("fieldSelector");
        if !(is_whole || is_selected) {
            return Weight::default();
        }
        // Labels are kept beside the objects; everything else is in them, and they are parsed.
        let are_parsed = is_whole || select::looks_into_objects(self.query.get("fieldSelector"));
        let snapshot = self.backend.store.snapshot();
        let (mut count, mut bytes) = (0, 0);
        for entry in snapshot.range(&self.prefix(), "") {
            count += 1;
            bytes += entry.bytes.len();
            if bytes >= LIST_MEMORY_MAX || !are_parsed && count > LIST_LENGTH_HEAVY {
                break;
            }
        }
        match (are_parsed, count > LIST_LENGTH_HEAVY) {
            (true, is_long) => {
                let least = if is_long { HEAVY_BYTES } else { 0 };
                Weight { bytes: bytes.max(least), memory: if is_whole { bytes } else { 0 } }
            }
            (false, true) => Weight { bytes: HEAVY_BYTES, memory: 0 },
            (false, false) => Weight::default(),
        }
    }

    /// A write that creates needs the right to create, whatever its own verb.
    fn check_may_create(&self) -> Result<(), Status> {
        let attributes = self.path.attributes(Verb::Create.name(), &self.path.name);
        self.backend.authorizer.check(&self.who, &attributes)
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.resource.about(&self.path.name))
    }

    /// Runs its verb.
    pub(crate) async fn run(self, body: Bytes) -> Result<Answer, Status> {
        if !self.path.subresource.is_empty() {
            return subresource::run(self, body).await;
        }
        match (self.verb, self.path.name.is_empty()) {
            (Verb::List, _) => list::list(&self),
            (Verb::Watch, _) => watch::watch(self),
            (Verb::Get, _) => get::get(&self),
            (Verb::Create, false) if self.resource.is_custom() => create::create(&self, &body).await,
            (Verb::Create, true)
                if self.resource.declaration().is_some_and(|kind| kind.post == Post::BindPod) =>
            {
                pod::bind_named(self, &body).await
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

/// How much there is to think about in a text.
fn text_weight(text: &[u8]) -> Weight {
    let memory = if text.len() < SMALL_BYTES { 0 } else { memory_of_json(text) };
    Weight { bytes: text.len(), memory }
}
