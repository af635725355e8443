//! Detects that no task can run: the moment at which the simulator chooses what happens next.
//!
//! Tokio calls a hook before it parks its only thread, and the hook wakes the task that waits for idleness. Virtual
//! time therefore does not advance while such a task waits; to let time pass, the simulator waits for something else.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Notifies the simulator when the runtime is about to park.
#[derive(Debug, Default)]
pub(crate) struct IdleSignal {
    waiting: Mutex<Option<Waker>>,
}

impl IdleSignal {
    /// The hook: wakes the waiting simulator.
    pub(crate) fn ring(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Waits until no other task can run.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> + '_ {
        IdleWait { idle: self, has_waited: false }
    }
}

struct IdleWait<'a> {
    idle: &'a IdleSignal,
    has_waited: bool,
}

impl Future for IdleWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.idle.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Woken by something other than the hook: keep waiting.
        if self.has_waited && waiting.is_none() {
            return Poll::Ready(());
        }
        *waiting = Some(cx.waker().clone());
        drop(waiting);
        self.has_waited = true;
        Poll::Pending
    }
}
