//! What a handler holds while it runs: the context of a reconciler, and what only handlers have: which attempt it is,
//! sub-handlers, the live object, the word to stop.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::lookup::Lookups;
use crate::context::Context;
use crate::error::Error;
use crate::fault::Result;
use crate::kind::Kind;

/// One call of a handler. It is a [`Context`] with more; cheap to clone.
pub struct Turn<K: Kind>(Arc<Inner<K>>);

struct Inner<K: Kind> {
    context: Context<K>,
    which: Which,
    parts: Mutex<Vec<Part<K>>>,
    stop: CancellationToken,
    lookups: Lookups,
}

/// Which call of which handler.
#[derive(Clone, Debug)]
pub(super) struct Which {
    pub(super) id: String,
    pub(super) attempt: u32,
    /// When the first attempt was made.
    pub(super) since: Timestamp,
}

/// A sub-handler, registered by its parent.
pub(super) struct Part<K: Kind> {
    pub(super) id: String,
    pub(super) call: Box<dyn FnOnce(Turn<K>) -> BoxFuture<'static, Result<Value>> + Send>,
}

impl<K: Kind> Clone for Turn<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Kind> Deref for Turn<K> {
    type Target = Context<K>;

    fn deref(&self) -> &Context<K> {
        &self.0.context
    }
}

impl<K: Kind> Turn<K> {
    pub(super) fn new(context: Context<K>, which: Which, stop: CancellationToken, lookups: Lookups) -> Self {
        Self(Arc::new(Inner { context, which, parts: Mutex::default(), stop, lookups }))
    }

    /// The id of the handler; of a sub-handler `parent/id`.
    pub fn id(&self) -> &str {
        &self.0.which.id
    }

    /// Which attempt at the present state this is; 1 is the first, also when it is the first after a restart.
    pub fn attempt(&self) -> u32 {
        self.0.which.attempt
    }

    /// When the first attempt at the present state was made.
    pub fn since(&self) -> Timestamp {
        self.0.which.since
    }

    /// Registers a sub-handler. It runs after this handler has returned well, with progress, retries and a result of
    /// its own under `parent/id`; this handler is through when all its sub-handlers are. While some are not, it is
    /// called again to register them, and those that are through are not: what must not be repeated belongs in them.
    pub fn sub<F, Fut, R>(&self, id: impl AsRef<str>, handler: F)
    where
        F: FnOnce(Self) -> Fut + Send + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize + 'static,
    {
        let id = format!("{}/{}", self.0.which.id, id.as_ref());
        let call = Box::new(move |turn| -> BoxFuture<'static, Result<Value>> {
            let running = handler(turn);
            Box::pin(async move { value_of(&running.await?) })
        });
        self.parts().push(Part { id, call });
    }

    /// The object as it is now; none when it is gone. For handlers that run long. An event handler of a kind whose objects
    /// nobody keeps gets the object of its event.
    pub fn live(&self) -> Option<Arc<K>> {
        let cache = &self.engine().cache;
        if cache.is_kept() { cache.get(self.key()) } else { Some(self.object().clone()) }
    }

    /// Writes the status collected so far instead of waiting for the end of the handler. For handlers that run long.
    pub async fn save_status(&self) -> Result<(), Error> {
        self.write_status(None).await
    }

    /// Cancelled when the handler shall end: the object goes, its filters no longer match, or the operator stops.
    pub fn stop(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Waits for the future, but not past the word to stop: then none.
    pub async fn unless_stopped<F: Future>(&self, future: F) -> Option<F::Output> {
        self.0.stop.run_until_cancelled(future).await
    }

    pub(super) fn lookups(&self) -> &Lookups {
        &self.0.lookups
    }

    pub(super) fn take_parts(&self) -> Vec<Part<K>> {
        std::mem::take(&mut *self.parts())
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Vec<Part<K>>> {
        self.0.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A result as it is stored.
pub(super) fn value_of<R: Serialize>(result: &R) -> Result<Value> {
    Ok(serde_json::to_value(result)?)
}
