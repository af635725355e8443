//! Handles the external calls of a plan: worlds' writes are recorded instead of sent, and their reads go to the real
//! API.
//!
//! **Invariant:** a read runs in real time on the runtime from which the plan was requested, and the plan's own virtual
//! time stands still until the read completes: a slow API never looks like a timeout.

use std::sync::{Arc, Mutex, PoisonError};

use homeostat_core::FieldDiff;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::paused_time::PausedTime;

/// Records what the worlds of a planned operator would write. Clones share one record.
#[derive(Clone)]
pub struct PlannedCalls {
    outside: Handle,
    calls: Arc<Mutex<Vec<PlannedCall>>>,
}

/// One external write that a plan did not send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedCall {
    /// The name of the world.
    pub world: String,
    /// How it would be written.
    pub verb: PlannedVerb,
    /// The external resource.
    pub name: String,
    /// The object that it belongs to: `namespace/name`, or only the name; `None` for a leak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What it would change.
    pub diff: FieldDiff,
}

/// How an external resource would be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum PlannedVerb {
    /// It would be created.
    Create,
    /// It would be changed.
    Update,
    /// It would be deleted.
    Delete,
}

impl PlannedCalls {
    /// Returns an empty record. Worlds' reads run on this handle's runtime.
    pub fn new(outside: Handle) -> Self {
        Self { outside, calls: Arc::default() }
    }

    /// Returns the calls recorded so far, and begins a new record.
    pub fn take(&self) -> Vec<PlannedCall> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of calls in the record.
    pub fn count(&self) -> usize {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn record(&self, call: PlannedCall) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// Runs a read against the real API. Dropping the future cancels it.
    pub(crate) async fn read<T: Send + 'static>(&self, read: impl Future<Output = T> + Send + 'static) -> T {
        let _held = PausedTime::new();
        match AbortOnDropHandle::new(self.outside.spawn(read)).await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The outer runtime is shutting down, so nothing waits for the plan any more.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
