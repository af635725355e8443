//! Requests that may take long to process: large bodies, changes of large objects, lists that are built as a whole.
//!
//! An object is parsed and validated where its request runs, and nothing can interrupt that; one of a thousand times
//! the usual size would block everything else on its thread for a thousand times as long. So expensive requests leave
//! the threads that serve connections, a few at a time, and all others are answered in the meantime.
//!
//! **Invariant:** at most [`AT_ONCE`] requests of users run at the same time, one per user, and their memory together
//! stays below [`MEMORY_AT_ONCE_MAX`]. One more slot is reserved for administrators. Other requests wait without
//! holding a thread; a user who asks for much waits behind their own requests.

mod processor_time;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_api::resource::Resource;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use self::processor_time::{ProcessorTimeDebts, measure_processor_time};
use crate::auth::{Identity, MASTERS};

/// From this size of the body on a request is expensive: some ten times a large Deployment, or a millisecond of work.
pub(crate) const EXPENSIVE_BYTES: usize = 64 * 1024;
/// From this memory on a request is expensive: many small parts take most, and a user may have two hundred writes in
/// progress.
pub(crate) const EXPENSIVE_MEMORY_BYTES: usize = 512 * 1024;
/// As many as a small machine has cores: the threads that serve connections still get half of it.
const AT_ONCE: usize = 2;
/// Slots for administrators in addition to those, so that they can always act.
const ADMINISTRATORS_EXTRA: usize = 1;
/// The memory of the bodies and objects that are processed at the same time. A request takes up to four times what it
/// reads (the old object, the new one, its managed fields, and its bytes), so 160 MB with this limit; a larger one
/// runs alone.
const MEMORY_AT_ONCE_MAX: usize = 40 * 1024 * 1024;

/// The cost of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestCost {
    /// Bytes of text.
    pub(crate) bytes: usize,
    /// About how much memory the text takes.
    pub(crate) memory: usize,
}

impl RequestCost {
    /// Returns whether the request must leave the threads that serve connections.
    pub(crate) fn is_expensive(self) -> bool {
        self.bytes >= EXPENSIVE_BYTES || self.memory >= EXPENSIVE_MEMORY_BYTES
    }
}

/// The queue in which expensive requests wait for their turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpensiveRequests {
    queue: Arc<Mutex<RequestQueue>>,
    debts: Arc<ProcessorTimeDebts>,
}

#[derive(Debug, Default)]
struct RequestQueue {
    users: RunningRequests,
    administrators: RunningRequests,
    /// First come, first served, except that requests that may not start yet are passed over.
    waiting: VecDeque<WaitingRequest>,
}

/// Requests that are being processed.
#[derive(Debug, Default)]
struct RunningRequests {
    count: usize,
    memory: usize,
    by_user: HashMap<Arc<str>, usize>,
}

/// A user's access to the queue, for work that is done while an answer is sent: pieces of lists, events of watches.
#[derive(Clone, Debug)]
pub(crate) struct UserQueue {
    requests: ExpensiveRequests,
    user: Arc<str>,
    is_administrator: bool,
}

#[derive(Clone, Debug)]
struct QueuedRequest {
    user: Arc<str>,
    is_administrator: bool,
    memory: usize,
}

#[derive(Debug)]
struct WaitingRequest {
    request: QueuedRequest,
    start: oneshot::Sender<RunPermit>,
}

/// The permission to run, until dropped.
#[derive(Debug)]
struct RunPermit {
    queue: ExpensiveRequests,
    request: QueuedRequest,
}

impl ExpensiveRequests {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Runs the work of a request of this cost. Dropping the future before its turn leaves nothing behind.
    pub(crate) async fn run<F: Future>(&self, cost: RequestCost, who: &Identity, work: F) -> F::Output {
        if !cost.is_expensive() {
            return work.await;
        }
        let _permit = self.user_queue(who).acquire_permit(cost).await;
        // A runtime with one thread has no other thread to hand the connections to.
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => work.await,
            _ => tokio::task::block_in_place(|| Handle::current().block_on(work)),
        }
    }

    /// Returns the cost of a write, including the recent cost of this user's writes of the resource.
    pub(crate) fn cost_of_write(
        &self,
        cost: RequestCost,
        who: &Identity,
        resource: &Resource,
    ) -> RequestCost {
        let is_costly = || self.debts.exceeds_limit(self.debts.account(who, resource));
        if cost.is_expensive() || who.is_in(MASTERS) || !is_costly() {
            return cost;
        }
        RequestCost { bytes: EXPENSIVE_BYTES, ..cost }
    }

    /// Runs a write of this cost, as [`run`](Self::run) does, and remembers its processor time. Administrators are
    /// trusted.
    pub(crate) async fn run_write<F: Future>(
        &self,
        cost: RequestCost,
        who: &Identity,
        resource: &Resource,
        work: F,
    ) -> F::Output {
        if who.is_in(MASTERS) {
            return self.run(cost, who, work).await;
        }
        let account = self.debts.account(who, resource);
        let (output, spent) = self.run(cost, who, measure_processor_time(work)).await;
        self.debts.charge(account, spent);
        output
    }

    /// Returns the access of this user to the queue.
    pub(crate) fn user_queue(&self, who: &Identity) -> UserQueue {
        UserQueue { requests: self.clone(), user: (*who.name).into(), is_administrator: who.is_in(MASTERS) }
    }

    /// Starts every waiting request that may run now.
    fn start_next(&self) {
        loop {
            let mut queue = self.queue();
            let Some(at) = queue.next_ready() else { return };
            let Some(WaitingRequest { request, start }) = queue.waiting.remove(at) else { return };
            if start.is_closed() {
                continue;
            }
            queue.begin(&request);
            drop(queue);
            // A request that was dropped at this moment returns the permit by dropping it.
            let _ = start.send(RunPermit { queue: self.clone(), request });
        }
    }

    fn queue(&self) -> MutexGuard<'_, RequestQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UserQueue {
    /// Runs work of this cost. Must not be called while holding a permit: it would wait for itself.
    pub(crate) async fn make<T>(&self, cost: RequestCost, work: impl FnOnce() -> T) -> T {
        if !cost.is_expensive() {
            return work();
        }
        let _permit = self.acquire_permit(cost).await;
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => work(),
            _ => tokio::task::block_in_place(work),
        }
    }

    async fn acquire_permit(&self, cost: RequestCost) -> RunPermit {
        let request = QueuedRequest {
            user: Arc::clone(&self.user),
            is_administrator: self.is_administrator,
            memory: cost.memory.min(MEMORY_AT_ONCE_MAX),
        };
        let (start, started) = oneshot::channel();
        self.requests.queue().waiting.push_back(WaitingRequest { request, start });
        self.requests.start_next();
        started.await.expect("every waiting request is started eventually")
    }
}

impl RequestQueue {
    /// Returns the first waiting request that may start now.
    fn next_ready(&self) -> Option<usize> {
        let mut is_short_of_memory = false;
        self.waiting.iter().position(|WaitingRequest { request, start }| {
            // Nobody waits for it any more: it only leaves the queue.
            if start.is_closed() {
                return true;
            }
            if !self.may_run(request) || !request.is_administrator && is_short_of_memory {
                return false;
            }
            let running = if request.is_administrator { &self.administrators } else { &self.users };
            let fits = running.count == 0 || running.memory + request.memory <= MEMORY_AT_ONCE_MAX;
            // Smaller requests must not overtake a large one forever.
            is_short_of_memory |= !fits && !request.is_administrator;
            fits
        })
    }

    fn may_run(&self, request: &QueuedRequest) -> bool {
        let all = self.users.count + self.administrators.count;
        if request.is_administrator {
            return all < AT_ONCE + ADMINISTRATORS_EXTRA;
        }
        all < AT_ONCE + ADMINISTRATORS_EXTRA
            && self.users.count < AT_ONCE
            && !self.users.by_user.contains_key(&request.user)
    }

    fn running(&mut self, request: &QueuedRequest) -> &mut RunningRequests {
        if request.is_administrator { &mut self.administrators } else { &mut self.users }
    }

    fn begin(&mut self, request: &QueuedRequest) {
        let running = self.running(request);
        running.count += 1;
        running.memory += request.memory;
        *running.by_user.entry(Arc::clone(&request.user)).or_default() += 1;
    }

    fn end(&mut self, request: &QueuedRequest) {
        let running = self.running(request);
        running.count -= 1;
        running.memory -= request.memory;
        match running.by_user.get_mut(&request.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(running.by_user.remove(&request.user)),
        }
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        self.queue.queue().end(&self.request);
        self.queue.start_next();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    const LARGE: RequestCost = RequestCost { bytes: EXPENSIVE_BYTES, memory: 1024 };

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    impl ExpensiveRequests {
        async fn acquire_permit(&self, cost: RequestCost, who: &Identity) -> RunPermit {
            self.user_queue(who).acquire_permit(cost).await
        }
    }

    /// Four times the work that would block two threads, and a user who needs an answer in the meantime.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn others_are_served_while_expensive_requests_run() {
        // Only a failing test waits that long.
        const PATIENCE: Duration = Duration::from_secs(60);
        let (requests, started) = (ExpensiveRequests::new(), Arc::new(tokio::sync::Semaphore::new(0)));
        let (release, waits): (Vec<_>, Vec<_>) = (0..8).map(|_| std::sync::mpsc::channel::<()>()).unzip();
        let think = |(at, wait): (usize, std::sync::mpsc::Receiver<()>)| {
            let (requests, started) = (requests.clone(), Arc::clone(&started));
            let work = async move {
                started.add_permits(1);
                // Occupies its thread until it is released.
                let _ = wait.recv_timeout(PATIENCE);
            };
            tokio::spawn(async move { requests.run(LARGE, &user(&format!("user-{at}")), work).await })
        };
        let tasks: Vec<_> = waits.into_iter().enumerate().map(think).collect();
        let both = started.acquire_many(2).await.expect("nobody closes it");
        for _ in 0..40 {
            tokio::spawn(tokio::task::yield_now()).await.expect("nobody panics");
        }
        assert!(tasks.iter().all(|task| !task.is_finished()), "the expensive ones are still running");
        drop((release, both));
        for task in tasks {
            task.await.expect("each gets its turn");
        }
    }

    #[tokio::test]
    async fn one_user_delays_nobody_else_and_administrators_can_always_run() {
        let requests = ExpensiveRequests::new();
        let first = requests.acquire_permit(LARGE, &user("jane")).await;
        let mut others: Vec<_> = (0..12)
            .map(|_| Box::pin(async { requests.acquire_permit(LARGE, &user("jane")).await }))
            .collect();
        assert!(
            others.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()),
            "one request per user runs"
        );
        let (joe, jim) = (user("joe"), user("jim"));
        let joe = requests.acquire_permit(LARGE, &joe).now_or_never().expect("joe need not wait for jane");
        let mut jim = Box::pin(requests.acquire_permit(LARGE, &jim));
        assert!(jim.as_mut().now_or_never().is_none(), "two requests of users run");
        let admin = requests
            .acquire_permit(LARGE, &Identity::admin())
            .now_or_never()
            .expect("administrators have a slot of their own");
        drop((joe, admin));
        let jim = jim.now_or_never().expect("joe made room");
        drop((first, jim));
        others.remove(0).now_or_never().expect("it was first in the queue");
        drop(others);
        let all: Vec<_> = (0..3)
            .filter_map(|_| requests.acquire_permit(LARGE, &Identity::admin()).now_or_never())
            .collect();
        assert_eq!(all.len(), 3, "dropped requests hold nothing");
        let queue = requests.queue();
        assert!(queue.users.count == 0 && queue.users.by_user.is_empty() && queue.users.memory == 0);
    }

    #[tokio::test]
    async fn writes_that_cost_more_than_their_size_suggests_leave_the_serving_threads() {
        let requests = ExpensiveRequests::new();
        let pods = &homeostat_api::kinds::built_in_rows()
            .into_iter()
            .find(|resource| &*resource.plural == "pods")
            .expect("it is built in");
        let small = RequestCost { bytes: 100, memory: 100 };
        let (jane, joe, admin) = (user("jane"), user("joe"), Identity::admin());
        let busy = || async { while measured_so_far() < Duration::from_millis(80) {} };
        for who in [&jane, &admin] {
            assert!(!requests.cost_of_write(small, who, pods).is_expensive());
            STARTED.set(None);
            requests.run_write(small, who, pods, busy()).await;
        }
        assert!(requests.cost_of_write(small, &jane, pods).is_expensive());
        assert!(
            !requests.cost_of_write(small, &joe, pods).is_expensive()
                && !requests.cost_of_write(small, &admin, pods).is_expensive()
        );
    }

    thread_local! {
        static STARTED: std::cell::Cell<Option<Duration>> = const { std::cell::Cell::new(None) };
    }

    /// Returns the processor time since the first call.
    fn measured_so_far() -> Duration {
        let now = processor_time::processor_time();
        let started = STARTED.get().unwrap_or(now);
        STARTED.set(Some(started));
        now.saturating_sub(started)
    }

    #[tokio::test]
    async fn a_request_that_takes_much_memory_runs_alone_and_is_not_overtaken() {
        let requests = ExpensiveRequests::new();
        let whole = RequestCost { bytes: EXPENSIVE_BYTES, memory: 10 * MEMORY_AT_ONCE_MAX };
        let [jane, joe, jim] = ["jane", "joe", "jim"].map(user);
        let first = requests.acquire_permit(whole, &jane).await;
        let mut second = Box::pin(requests.acquire_permit(whole, &joe));
        let mut small = Box::pin(requests.acquire_permit(LARGE, &jim));
        assert!(second.as_mut().now_or_never().is_none() && small.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
        assert!(small.now_or_never().is_some());
    }
}
