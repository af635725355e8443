//! When nothing can run: the moment at which the simulator chooses what happens next.
//!
//! Tokio calls a hook before it parks its only thread. Whoever waits for idleness is woken there, so virtual time does not
//! move while anything else can happen; whoever wants time to pass waits for something else.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Rings when the runtime is about to park.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    waiting: Mutex<Option<Waker>>,
}

impl Idle {
    /// The hook: wakes whoever waits.
    pub(crate) fn ring(&self) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Waits until every other task waits.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> + '_ {
        IdleWait { idle: self, has_waited: false }
    }
}

struct IdleWait<'a> {
    idle: &'a Idle,
    has_waited: bool,
}

impl Future for IdleWait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.idle.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Woken by anything but the hook, it waits on.
        if self.has_waited && waiting.is_none() {
            return Poll::Ready(());
        }
        *waiting = Some(cx.waker().clone());
        drop(waiting);
        self.has_waited = true;
        Poll::Pending
    }
}
