//! A question to the operators of other processes that a stream asks again and again, in the background of everything
//! else it does.
//!
//! It runs in a task of its own: a viewer who does not read stops their stream, and must not keep an answer from
//! their other streams, which wait for it.

use std::sync::Arc;

use futures::future::BoxFuture;
use homeostat_core::activity::OperatorAnswers;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::viewer_operators::{ANSWER_AGE_MAX, ViewerOperators};

/// What operators answered, shared by the streams of a viewer.
pub(crate) type SharedAnswers<T> = Arc<OperatorAnswers<T>>;

/// A question that is asked again when its answer is old.
pub(crate) struct RepeatedQuestion<T> {
    operators: Option<Arc<ViewerOperators>>,
    next: Instant,
    asking: Option<AbortOnDropHandle<SharedAnswers<T>>>,
}

impl<T: Send + Sync + 'static> RepeatedQuestion<T> {
    /// Creates one that is due; without operators nothing is asked.
    pub(crate) fn new(operators: Option<Arc<ViewerOperators>>, now: Instant) -> Self {
        Self { operators, next: now, asking: None }
    }

    /// Asks if it is time and the previous question has been answered.
    pub(crate) fn ask_if_due(
        &mut self,
        now: Instant,
        question: impl FnOnce(Arc<ViewerOperators>) -> BoxFuture<'static, SharedAnswers<T>>,
    ) {
        if let Some(operators) = &self.operators
            && self.asking.is_none()
            && self.next <= now
        {
            self.next = now + ANSWER_AGE_MAX;
            self.asking = Some(AbortOnDropHandle::new(tokio::spawn(question(Arc::clone(operators)))));
        }
    }

    /// Waits for the answers; forever if nothing was asked. Dropping it loses nothing.
    pub(crate) async fn answered(&mut self) -> SharedAnswers<T> {
        let Some(asking) = &mut self.asking else { return std::future::pending().await };
        let answers = asking.await;
        self.asking = None;
        // Only a panic, which has been reported, leaves no answer.
        answers.unwrap_or_default()
    }
}
