//! Runs the tasks whose duration users control: they parse all objects in a namespace.
//!
//! **Invariant:** slow tasks run alongside the others, one piece of a slow task for each of the others. They run one at
//! a time, and namespaces take turns. No user can stop the other tasks, or the slow ones of other namespaces, with
//! large objects.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use futures::future::BoxFuture;
use homeostat_api::kinds::core::persistent_volume_claim::PERSISTENT_VOLUME_CLAIM;
use homeostat_api::kinds::storage::volume_attributes_class::VOLUME_ATTRIBUTES_CLASS;
use homeostat_api::storage_identity::ResourceIdentity;

use super::{BackgroundWorker, namespaces};
use crate::backend::Backend;
use crate::background_queue::BackgroundNotice;

const CLAIMS: ResourceIdentity<'static> = PERSISTENT_VOLUME_CLAIM.storage();
const CLASSES: ResourceIdentity<'static> = VOLUME_ATTRIBUTES_CLASS.storage();

/// Returns the namespace whose objects the handler of a notice parses; `None` if it finishes quickly.
pub(super) fn slow_namespace(backend: &Backend, notice: &BackgroundNotice) -> Option<Box<str>> {
    match notice {
        BackgroundNotice::Quotas(namespace) | BackgroundNotice::TokenSecrets(namespace) => {
            Some(namespace.clone())
        }
        // Finding out who uses them requires looking at all Pods, or at all claims and volumes.
        BackgroundNotice::Object(key) if matches!(ResourceIdentity::of_key(key), CLAIMS | CLASSES) => {
            Some(key.namespace().into())
        }
        BackgroundNotice::Namespace(name) => namespaces::deletion_age(backend, name).map(|_| name.clone()),
        _ => None,
    }
}

/// The waiting slow tasks, and the running one.
pub(super) struct SlowTasks<'a> {
    worker: &'a BackgroundWorker,
    /// By namespace. No set is empty.
    waiting: BTreeMap<Box<str>, BTreeSet<BackgroundNotice>>,
    /// The namespace that had its turn last. The next namespace by name follows.
    last: Box<str>,
    /// The running task. Returns the notice if it must be handled again.
    running: Option<BoxFuture<'a, Option<BackgroundNotice>>>,
}

impl<'a> SlowTasks<'a> {
    pub(super) fn new(worker: &'a BackgroundWorker) -> Self {
        Self { worker, waiting: BTreeMap::new(), last: "".into(), running: None }
    }

    /// Adds a notice about objects in a namespace.
    pub(super) fn add(&mut self, namespace: Box<str>, notice: BackgroundNotice) {
        self.waiting.entry(namespace).or_default().insert(notice);
    }

    /// Continues until one task is complete, or forever if there is none. May be dropped and called again. Returns a
    /// notice that could not be handled yet.
    pub(super) async fn run(&mut self) -> Option<BackgroundNotice> {
        if self.running.is_none() {
            let Some(notice) = self.take_next() else { return std::future::pending().await };
            self.running = Some(Box::pin(self.worker.handle_or_return(notice)));
        }
        let outcome = match &mut self.running {
            Some(task) => task.await,
            None => None,
        };
        self.running = None;
        outcome
    }

    fn take_next(&mut self) -> Option<BackgroundNotice> {
        let after = (Bound::Excluded(&*self.last), Bound::Unbounded);
        let next = self.waiting.range::<str, _>(after).next().or_else(|| self.waiting.first_key_value())?;
        let namespace = next.0.clone();
        let notices = self.waiting.get_mut(&namespace)?;
        let notice = notices.pop_first();
        if notices.is_empty() {
            self.waiting.remove(&namespace);
        }
        self.last = namespace;
        notice
    }
}
