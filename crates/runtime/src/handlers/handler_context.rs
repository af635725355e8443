//! The context that a handler gets while it runs: a reconciler's context, plus the parts that only handlers have: the
//! number of the attempt, sub-handlers, the live object and the stop token.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::value_index::Lookups;
use crate::context::{Context, ReconcileRun};
use crate::error::Error;
use crate::fault::Result;
use crate::kind::Kind;
use crate::kind::object::downcast_object;

/// The context of one handler call: a [`Context`] with additions. Cheap to clone.
pub struct HandlerContext<K: Kind> {
    context: Context<K>,
    state: Arc<HandlerContextState>,
}

/// The context of one handler call without the type of its object: the inner part of a [`HandlerContext`].
pub(super) struct HandlerContextState {
    run: Arc<ReconcileRun>,
    which: CallIdentity,
    parts: Mutex<Vec<SubHandler>>,
    stop: CancellationToken,
    lookups: Lookups,
}

/// Identifies one handler call.
#[derive(Clone, Debug)]
pub(super) struct CallIdentity {
    pub(super) id: String,
    pub(super) attempt: u32,
    /// The time of the first attempt.
    pub(super) since: Timestamp,
}

/// A sub-handler, registered by its parent.
pub(super) struct SubHandler {
    pub(super) id: String,
    pub(super) call: SubHandlerFunction,
}

/// The function of a sub-handler.
pub(super) type SubHandlerFunction =
    Box<dyn FnOnce(Arc<HandlerContextState>) -> BoxFuture<'static, Result<Value>> + Send>;

impl HandlerContextState {
    pub(super) fn new(
        run: Arc<ReconcileRun>,
        which: CallIdentity,
        stop: CancellationToken,
        lookups: Lookups,
    ) -> Arc<Self> {
        Arc::new(Self { run, which, parts: Mutex::default(), stop, lookups })
    }

    /// Writes the status collected so far. The future is boxed, so that it is compiled here and not in every operator.
    pub(super) fn save_status(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.run.write_status(None))
    }

    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    pub(super) fn take_parts(&self) -> Vec<SubHandler> {
        std::mem::take(&mut *self.parts())
    }

    fn add_part(&self, id: &str, call: SubHandlerFunction) {
        let id = format!("{}/{id}", self.which.id);
        self.parts().push(SubHandler { id, call });
    }

    fn parts(&self) -> MutexGuard<'_, Vec<SubHandler>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for HandlerContextState {
    type Target = ReconcileRun;

    fn deref(&self) -> &ReconcileRun {
        &self.run
    }
}

impl<K: Kind> Clone for HandlerContext<K> {
    fn clone(&self) -> Self {
        Self { context: self.context.clone(), state: self.state.clone() }
    }
}

impl<K: Kind> Deref for HandlerContext<K> {
    type Target = Context<K>;

    fn deref(&self) -> &Context<K> {
        &self.context
    }
}

impl<K: Kind> HandlerContext<K> {
    /// Returns the context of a call for an object of exactly this kind, with its type.
    pub(super) fn from_state(state: Arc<HandlerContextState>) -> Self {
        Self { context: Context::from_run(state.run.clone()), state }
    }

    /// Returns the id of the handler; for a sub-handler, `parent/id`.
    pub fn id(&self) -> &str {
        &self.state.which.id
    }

    /// Returns the number of this attempt in the current state, starting at 1; attempts are counted across restarts.
    pub fn attempt(&self) -> u32 {
        self.state.which.attempt
    }

    /// Returns the time of the first attempt in the current state.
    pub fn since(&self) -> Timestamp {
        self.state.which.since
    }

    /// Registers a sub-handler. It runs after this handler has succeeded, and has its own progress, retries and result
    /// under `parent/id`; this handler finishes when all its sub-handlers have. Until then this handler is called again
    /// to register them, while finished sub-handlers are not called again: put anything that must not be repeated into
    /// them.
    pub fn sub<F, Fut, R>(&self, id: impl AsRef<str>, handler: F)
    where
        F: FnOnce(Self) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        let call: SubHandlerFunction = Box::new(move |turn| {
            let running = handler(Self::from_state(turn));
            Box::pin(async move { value_of(&running.await?) })
        });
        self.state.add_part(id.as_ref(), call);
    }

    /// Returns the object as it is now; `None` if it is gone. This is useful for long-running handlers. An event
    /// handler of a kind whose objects are not kept in memory gets the object of its event.
    pub fn live(&self) -> Option<Arc<K>> {
        let cache = &self.run().controller().cache;
        if cache.is_kept() { cache.get(self.key()).map(downcast_object) } else { Some(self.object().clone()) }
    }

    /// Writes the status collected so far, without waiting for the handler to finish. This is useful for long-running
    /// handlers.
    pub async fn save_status(&self) -> Result<(), Error> {
        self.state.save_status().await
    }

    /// Returns the token that is cancelled when the handler must stop: the object is deleted, its filters no longer
    /// match, or the operator stops.
    pub fn stop(&self) -> &CancellationToken {
        &self.state.stop
    }

    /// Waits for the future; returns `None` if the handler is asked to stop first.
    pub async fn unless_stopped<F: Future>(&self, future: F) -> Option<F::Output> {
        self.state.stop.run_until_cancelled(future).await
    }

    pub(super) fn lookups(&self) -> &Lookups {
        &self.state.lookups
    }
}

/// Returns a result as it is stored.
pub(super) fn value_of<R: Serialize>(result: &R) -> Result<Value> {
    Ok(serde_json::to_value(result)?)
}
