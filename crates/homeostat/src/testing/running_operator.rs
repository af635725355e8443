//! Represents an operator that runs on a test's cluster.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use homeostat_core::journal::Record;
use homeostat_runtime::{CancellationToken, Error, Journal};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::records::{JournalMark, Records};

/// An operator that runs on a [`Cluster`](super::Cluster). Clones are the same operator.
#[derive(Clone)]
pub struct RunningOperator {
    pub(super) journal: Journal,
    pub(super) records: Arc<Mutex<Vec<Record>>>,
    pub(super) stop: CancellationToken,
    pub(super) task: AbortHandle,
    pub(super) end: watch::Receiver<OperatorEnd>,
}

/// How an operator exited.
#[derive(Debug)]
pub(super) enum OperatorEnd {
    NotYet,
    Ended(Result<(), Error>),
}

impl RunningOperator {
    /// Returns the journal itself, as [`Operator::journal`](homeostat_runtime::Operator::journal) does.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns everything it has done so far.
    pub fn records(&self) -> Records {
        self.since(JournalMark(0))
    }

    /// Returns the current position in its journal, for [`since`](Self::since).
    pub fn mark(&self) -> JournalMark {
        JournalMark(self.records.lock().unwrap_or_else(PoisonError::into_inner).len())
    }

    /// Returns what it did after the mark.
    pub fn since(&self, mark: JournalMark) -> Records {
        Records(self.records.lock().unwrap_or_else(PoisonError::into_inner)[mark.0..].to_vec())
    }

    /// Returns the token that tells it to stop, without waiting until it has stopped.
    pub fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Tells it to stop, as SIGTERM does, and waits until it has stopped.
    ///
    /// # Errors
    /// Returns the message of the error with which it exited.
    pub fn stop(&self) -> BoxFuture<'static, Result<(), String>> {
        self.stop.cancel();
        let mut end = self.end.clone();
        Box::pin(async move {
            match end.wait_for(|end| matches!(end, OperatorEnd::Ended(_))).await.as_deref() {
                Ok(OperatorEnd::Ended(Err(error))) => Err(error.to_string()),
                Ok(_) => Ok(()),
                Err(_) => Err("the operator was killed, or panicked".to_owned()),
            }
        })
    }

    /// Stops it immediately, as `kill -9` does.
    pub fn kill(&self) {
        self.task.abort();
    }

    /// Returns whether it has exited.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Returns why it exited, if it was not stopped.
    pub(super) fn unexpected_end(&self) -> Option<String> {
        match &*self.end.borrow() {
            OperatorEnd::Ended(Err(error)) => Some(error.to_string()),
            OperatorEnd::Ended(Ok(())) if !self.stop.is_cancelled() => Some("it returned".to_owned()),
            _ => None,
        }
    }
}
