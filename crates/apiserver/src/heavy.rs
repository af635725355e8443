//! Requests that may take long to think about: large bodies, and changes of large objects.
//!
//! Parsing and judging an object is done where its request runs, and nothing can interrupt it; a thousand times the usual size
//! would stop what else runs there for a thousand times as long. So large ones leave the threads that serve
//! connections, a few at a time, and everybody else is answered meanwhile.
//!
//! **Invariant:** at most [`AT_ONCE`] of them are thought about at once; others wait for their turn without holding a thread.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Bytes from which on a request is heavy: some ten times a large Deployment, or a millisecond of work.
pub(crate) const HEAVY_BYTES: usize = 64 * 1024;
/// As many as there are cores on a small machine: the threads that serve connections still get half of it.
const AT_ONCE: usize = 2;

/// Where heavy requests wait for their turn.
#[derive(Debug)]
pub(crate) struct Heavy(Semaphore);

impl Heavy {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(AT_ONCE))
    }

    /// Runs the work of a request of this weight.
    pub(crate) async fn run<F: Future>(&self, bytes: usize, work: F) -> F::Output {
        if bytes < HEAVY_BYTES {
            return work.await;
        }
        let _turn = self.0.acquire().await.expect("it is never closed");
        // On a runtime with one thread there is nobody to leave the thread to.
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => work.await,
            _ => tokio::task::block_in_place(|| Handle::current().block_on(work)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    /// Four times the work that would stop two threads, and somebody who wants to be answered.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[expect(clippy::disallowed_methods, reason = "the work of this test is to occupy its thread")]
    async fn others_are_served_while_heavy_requests_are_thought_about() {
        let heavy = Arc::new(Heavy::new());
        let work = || async { std::thread::sleep(Duration::from_millis(300)) };
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let heavy = Arc::clone(&heavy);
                tokio::spawn(async move { heavy.run(HEAVY_BYTES, work()).await })
            })
            .collect();
        let mut answered = 0;
        while tasks.iter().any(|task| !task.is_finished()) {
            tokio::spawn(tokio::time::sleep(Duration::from_millis(5))).await.expect("nobody panics");
            answered += 1;
        }
        assert!(answered > 40, "{answered} answers in more than a second");
    }
}
