//! Passes every change that the watch reports, in order for each object, to functions that have no progress and no
//! retries. This is useful for in-memory views and counters; use the other handlers for anything that must not be
//! missed.
//!
//! If nothing else in the operator needs the objects, none is kept: the watch waits for the listeners, and at most
//! [`ROOM`] events wait in memory. If there is a cache, its watch never waits, because other code depends on it. The
//! newest event is then dropped when more than [`WAITING_MAX`] wait, and the drop is logged.
//!
//! When this replica gets the right to act, all existing objects are reported again as listed, because earlier events
//! went to another replica.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::Change;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::declared_handlers::{DeclaredHandlers, admits};
use super::handled_condition::shorten_error;
use super::handler_context::{CallIdentity, HandlerContextState};
use crate::cache::{BoundedSubscriber, ObjectCache, ObjectDelta};
use crate::context::ReconcileRun;
use crate::events::Severity;
use crate::fault::{Fault, Result};
use crate::fence::{FenceAnswer, Permit};
use crate::kind::object::Object;
use crate::kind::object::ObjectTest;
use crate::shared::ControllerShared;

/// The maximum number of events that wait for listeners: more than the first list of a large cluster, but bounded.
const WAITING_MAX: usize = 200_000;

/// The number of waiting events at which a watch without a cache waits: enough that listeners never wait for the
/// network.
const ROOM: usize = 1024;

/// The number of objects whose events are delivered concurrently, as with reconciles.
const CONCURRENCY: usize = 32;

/// One change that the watch reported.
#[derive(Clone, Debug)]
pub struct RawEvent<K> {
    /// The kind of change. `Listed` means that the object exists, which may not be new.
    pub change: Change,
    /// The object after the change, or before it if it is gone.
    pub object: Arc<K>,
}

/// One change that the watch reported, without the type of the object.
#[derive(Clone, Debug)]
pub(super) struct ObjectEvent {
    pub(super) change: Change,
    pub(super) object: Arc<Object>,
}

/// A declared listener.
pub(super) struct Listener {
    pub(super) id: String,
    pub(super) filters: Vec<ObjectTest>,
    pub(super) call: ListenerCall,
}

/// A listener's function.
pub(super) type ListenerCall =
    Arc<dyn Fn(ObjectEvent, Arc<HandlerContextState>) -> BoxFuture<'static, Result<()>> + Send + Sync>;

/// Events on their way to the listeners.
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    arrived: Notify,
    /// Signals that a waiting watch may add events again.
    freed: Notify,
}

struct Mail {
    /// Waiting events by object. An object whose event is being delivered has an entry, even if it is empty.
    waiting: HashMap<Key, VecDeque<ObjectEvent>>,
    /// Objects whose events are not being delivered yet.
    ready: VecDeque<Key>,
    count: usize,
}

impl Mailbox {
    pub(super) fn new() -> Self {
        let mail = Mail { waiting: HashMap::new(), ready: VecDeque::new(), count: 0 };
        Self { mail: Mutex::new(mail), arrived: Notify::new(), freed: Notify::new() }
    }

    /// Adds a change; called in the task of the watch.
    pub(super) fn post(&self, delta: &ObjectDelta) {
        self.add(&delta.key, delta.change, || delta.new.clone().or_else(|| delta.old.clone()));
    }

    /// Adds an event. `object` is called under the lock, so that no event overtakes it.
    fn add(&self, key: &Key, change: Change, object: impl FnOnce() -> Option<Arc<Object>>) {
        let mut mail = self.mail();
        let Some(object) = object() else { return };
        let event = ObjectEvent { change, object };
        if mail.count >= WAITING_MAX {
            tracing::warn!(object = %key, "event dropped: {WAITING_MAX} are waiting for their listeners");
            return;
        }
        mail.count += 1;
        if let Some(waiting) = mail.waiting.get_mut(key) {
            waiting.push_back(event);
            return;
        }
        mail.waiting.insert(key.clone(), VecDeque::from([event]));
        mail.ready.push_back(key.clone());
        drop(mail);
        self.arrived.notify_one();
    }

    /// Delivers events to the listeners until `stop`; deliveries in progress are then cancelled.
    pub(super) async fn deliver(
        &self,
        plan: Arc<DeclaredHandlers>,
        controller: Arc<ControllerShared>,
        stop: CancellationToken,
    ) {
        let mut tasks = JoinSet::new();
        let fence = &controller.operator.fence;
        let (mut rights, mut gain) = (fence.subscribe(), fence.gain());
        while !stop.is_cancelled() {
            rights.mark_unchanged();
            if fence.gain() != gain {
                gain = fence.gain();
                self.show_again(&controller.cache);
            }
            while tasks.len() < CONCURRENCY
                && let Some((key, event)) = self.next()
            {
                tasks.spawn(call_listeners(plan.clone(), controller.clone(), key, event));
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.arrived.notified() => {}
                // Without an election, rights never change; the sender lives as long as the operator.
                _ = rights.changed() => {}
                Some(told) = tasks.join_next() => if let Ok(key) = told { self.finished(key) },
            }
        }
    }

    /// Reports all existing objects again when this replica gets the right to act on them.
    fn show_again(&self, cache: &ObjectCache) {
        if !cache.is_kept() {
            cache.want_relist();
            return;
        }
        for (key, _) in cache.entries() {
            self.add(&key, Change::Listed, || cache.get(&key));
        }
    }

    /// Returns the next event of an object that has no delivery in progress.
    fn next(&self) -> Option<(Key, ObjectEvent)> {
        let mut mail = self.mail();
        let key = mail.ready.pop_front()?;
        let event = mail.waiting.get_mut(&key)?.pop_front()?;
        mail.count -= 1;
        let is_room = mail.count < ROOM;
        drop(mail);
        if is_room {
            self.freed.notify_waiters();
        }
        Some((key, event))
    }

    fn finished(&self, key: Key) {
        let mut mail = self.mail();
        if mail.waiting.get(&key).is_some_and(VecDeque::is_empty) {
            mail.waiting.remove(&key);
        } else {
            mail.ready.push_back(key);
        }
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BoundedSubscriber for Mailbox {
    fn is_full(&self) -> bool {
        self.mail().count >= ROOM
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            loop {
                let freed = self.freed.notified();
                tokio::pin!(freed);
                freed.as_mut().enable();
                if !self.is_full() {
                    return;
                }
                freed.await;
            }
        })
    }
}

async fn call_listeners(
    plan: Arc<DeclaredHandlers>,
    controller: Arc<ControllerShared>,
    key: Key,
    event: ObjectEvent,
) -> Key {
    let FenceAnswer::Granted(permit) = controller.operator.fence.enter(&key) else { return key };
    permit.run(tell_all(&plan, &controller, &key, &event, &permit)).await;
    key
}

async fn tell_all(
    plan: &Arc<DeclaredHandlers>,
    controller: &Arc<ControllerShared>,
    key: &Key,
    event: &ObjectEvent,
    permit: &Permit,
) {
    for listener in &plan.listeners {
        let claim = permit.claim().clone();
        let context = ReconcileRun::detached(controller.clone(), event.object.clone(), key.clone(), claim);
        let which = CallIdentity { id: listener.id.clone(), attempt: 1, since: context.now() };
        let turn = HandlerContextState::new(context, which, CancellationToken::new(), plan.lookups.clone());
        let event = event.clone();
        let heard = AssertUnwindSafe(async {
            if admits(&listener.filters, &*event.object) {
                (listener.call)(event, turn.clone()).await?;
                turn.save_status().await?;
            }
            Ok(())
        });
        let heard = heard.catch_unwind().await;
        let heard = heard.unwrap_or_else(|panic| Err(Fault::from_panic(&*panic)));
        if let Err(error) = heard {
            tracing::warn!(object = %key, listener = listener.id, %error, "listener failed");
            let message = format!("{}: {} (not tried again)", listener.id, shorten_error(&error.chain()));
            turn.event(Severity::Warning, "HandlerFailed", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use homeostat_core::Revision;
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn what_waits_is_limited_and_the_newest_is_dropped() {
        let mailbox = Mailbox::new();
        let delta = |name: &str| ObjectDelta {
            key: Key::new("", "configmaps", "a", name),
            old: None,
            new: Some(Arc::new(ConfigMap::default())),
            change: Change::Added,
            revision: Revision::new(1),
            writer: None,
            writing: vec![],
        };
        let (first, dropped) = (delta("first"), delta("dropped"));
        (0..WAITING_MAX).for_each(|_| mailbox.post(&first));
        mailbox.post(&dropped);
        let mail = |mailbox: &Mailbox| {
            let mail = mailbox.mail();
            (mail.count, mail.waiting.len())
        };
        assert_eq!(mail(&mailbox), (WAITING_MAX, 1));
        assert!(mailbox.next().is_some(), "one is told, and there is room again");
        mailbox.post(&dropped);
        assert_eq!(mail(&mailbox), (WAITING_MAX, 2));
    }
}
