//! Lets an expensive request give up its slot while it waits for a webhook.
//!
//! A request that waits uses no processor time, so another one may run in the meantime, but it keeps its object in
//! memory. Only some requests may therefore step aside ([`ASIDE_MEMORY_MAX`], [`ASIDE_PER_USER_MAX`]); the others keep
//! their slot while they wait.
//!
//! **Invariant:** a request that continues has a slot again, and a dropped request has none.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::{ExpensiveRequests, QueuedRequest, RunPermit};

/// The maximum memory of all requests that stepped aside: as much as running requests may take.
const ASIDE_MEMORY_MAX: usize = super::MEMORY_AT_ONCE_MAX;
/// How many requests of one user may step aside, so that some memory is left for other users.
const ASIDE_PER_USER_MAX: usize = 8;

tokio::task_local! {
    static PERMIT: PermitCell;
}

/// Holds the permit of the request that this task runs.
#[derive(Clone)]
pub(super) struct PermitCell(Arc<Mutex<Option<RunPermit>>>);

impl PermitCell {
    pub(super) fn new(permit: RunPermit) -> Self {
        Self(Arc::new(Mutex::new(Some(permit))))
    }

    fn take(&self) -> Option<RunPermit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, permit: RunPermit) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }
}

/// A request that stepped aside, until dropped.
struct SteppedAsideRequest {
    requests: ExpensiveRequests,
    request: QueuedRequest,
}

impl SteppedAsideRequest {
    /// Counts a request as having stepped aside; `None` if there is no room.
    fn enter(permit: &RunPermit) -> Option<Self> {
        let (requests, request) = (permit.queue.clone(), permit.request.clone());
        let mut queue = requests.queue();
        let own = queue.aside.by_account.get(&request.account.name).copied().unwrap_or_default();
        let has_room = queue.aside.memory + request.memory <= ASIDE_MEMORY_MAX;
        if !has_room || own >= ASIDE_PER_USER_MAX {
            return None;
        }
        queue.aside.add(&request);
        drop(queue);
        Some(Self { requests, request })
    }
}

impl Drop for SteppedAsideRequest {
    fn drop(&mut self) {
        self.requests.queue().aside.remove(&self.request);
    }
}

/// Runs the work off the threads that serve connections, whenever it has something to do.
pub(super) async fn run_with_permit<F: Future>(permit: PermitCell, work: F) -> F::Output {
    let mut work = pin!(PERMIT.scope(permit, work));
    // A runtime with one thread has no other thread to hand the connections to.
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work.await;
    }
    std::future::poll_fn(|context| -> Poll<F::Output> {
        tokio::task::block_in_place(|| work.as_mut().poll(context))
    })
    .await
}

/// Awaits something outside the process. If this task runs an expensive request, another one may run in the meantime.
pub(crate) async fn step_aside<F: Future>(wait: F) -> F::Output {
    let Ok(cell) = PERMIT.try_with(PermitCell::clone) else { return wait.await };
    let Some(permit) = cell.take() else { return wait.await };
    let Some(aside) = SteppedAsideRequest::enter(&permit) else {
        let output = wait.await;
        cell.put(permit);
        return output;
    };
    drop(permit);
    let output = wait.await;
    let permit = aside.requests.wait_for_turn(aside.request.clone()).await;
    cell.put(permit);
    output
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::Notify;

    use super::*;
    use crate::auth::Identity;
    use crate::expensive_requests::{EXPENSIVE_BYTES, RequestCost};

    const LARGE: RequestCost = RequestCost { bytes: EXPENSIVE_BYTES, memory: 1024 };

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    /// Returns how many requests are running, and how many have stepped aside.
    fn counts(requests: &ExpensiveRequests) -> (usize, usize) {
        let queue = requests.queue();
        (queue.users.count, queue.aside.count)
    }

    #[tokio::test]
    async fn a_request_that_waits_for_a_webhook_lets_others_run_and_queues_again() {
        let requests = ExpensiveRequests::new();
        let answers = Notify::new();
        let [jane, joe, jim] = ["jane", "joe", "jim"].map(user);
        let mut waiting = [&jane, &joe].map(|who| {
            let (requests, answers) = (&requests, &answers);
            Box::pin(async move { requests.run(LARGE, who, step_aside(answers.notified())).await })
        });
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert_eq!(counts(&requests), (0, 2));
        let both = [&jim, &jane].map(|who| requests.user_queue(who));
        let [first, second] = [both[0].acquire_permit(LARGE), both[1].acquire_permit(LARGE)];
        let running =
            (first.now_or_never().expect("a place is free"), second.now_or_never().expect("so is this"));
        answers.notify_waiters();
        let [mut jane, mut joe] = waiting;
        assert!(jane.as_mut().now_or_never().is_none() && joe.as_mut().now_or_never().is_none());
        drop(running);
        assert!(jane.now_or_never().is_some() && joe.now_or_never().is_some());
        let queue = requests.queue();
        assert_eq!((queue.users.count, queue.aside.count, queue.aside.memory), (0, 0, 0));
    }

    #[tokio::test]
    async fn only_some_requests_of_one_user_step_aside() {
        let requests = ExpensiveRequests::new();
        let jane = user("jane");
        let mut waiting = (0..ASIDE_PER_USER_MAX + 3)
            .map(|_| {
                let (requests, jane) = (&requests, &jane);
                Box::pin(
                    async move { requests.run(LARGE, jane, step_aside(std::future::pending::<()>())).await },
                )
            })
            .collect::<Vec<_>>();
        assert!(waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()));
        assert_eq!(counts(&requests), (1, ASIDE_PER_USER_MAX));
        drop(waiting);
        let queue = requests.queue();
        assert_eq!((queue.users.count, queue.aside.count), (0, 0), "dropped requests hold nothing");
    }
}
