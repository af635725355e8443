//! Whether the client of a connection takes what it asked for.
//!
//! **Invariant:** an answer that nothing was taken of for [`limits::STALL_TIME`] ends its connection, and frees what it holds;
//! buffers on the way may take a last piece meanwhile, and then it lasts as long again.
//! Watches and logs are not counted: they have nothing to give most of the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::limits;

/// The answers of one connection that are not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    next: u64,
    /// When something was last taken of each.
    taken_at: BTreeMap<u64, Instant>,
}

/// An answer under way, until dropped.
#[derive(Debug)]
pub(crate) struct UnderWay {
    progress: Arc<Progress>,
    number: u64,
}

impl Progress {
    /// One more answer to be sent.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        let mut answers = self.answers();
        let number = answers.next;
        answers.next += 1;
        answers.taken_at.insert(number, Instant::now());
        UnderWay { progress: Arc::clone(self), number }
    }

    /// Waits until the client has left an answer alone for too long.
    pub(super) async fn stalled(&self) {
        loop {
            let now = Instant::now();
            let oldest = self.answers().taken_at.values().min().copied();
            let end = oldest.unwrap_or(now) + limits::STALL_TIME;
            if end <= now {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnderWay {
    /// Something was taken of it.
    pub(super) fn moved(&self) {
        if let Some(taken_at) = self.progress.answers().taken_at.get_mut(&self.number) {
            *taken_at = Instant::now();
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.progress.answers().taken_at.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_left_alone_ends_the_wait_and_a_moving_one_does_not() {
        let progress = Arc::new(Progress::default());
        let mut stalled = Box::pin(progress.stalled());
        assert!(stalled.as_mut().now_or_never().is_none());
        tokio::time::advance(10 * limits::STALL_TIME).await;
        assert!(stalled.as_mut().now_or_never().is_none(), "there is nothing to take");
        let (moving, left) = (progress.begin(), progress.begin());
        let almost = limits::STALL_TIME / 10 * 9;
        tokio::time::advance(almost).await;
        moving.moved();
        assert!(stalled.as_mut().now_or_never().is_none());
        drop(left);
        tokio::time::advance(almost).await;
        assert!(stalled.as_mut().now_or_never().is_none(), "the other one is done");
        tokio::time::timeout(limits::STALL_TIME, stalled).await.expect("it was left alone");
    }
}
