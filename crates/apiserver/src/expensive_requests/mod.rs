//! Handles requests that may take a long time to process: large bodies, changes to large objects, lists that are built
//! as a whole.
//!
//! An object is parsed and validated on the thread that runs its request, and nothing can interrupt that; an object a
//! thousand times the normal size would block everything else on its thread for a thousand times as long. Expensive
//! requests therefore leave the threads that serve connections, a few at a time, and all others are served in the
//! meantime.
//!
//! **Invariant:** at most [`AT_ONCE`] user requests run at the same time, one per account, and their memory together
//! stays below [`MEMORY_AT_ONCE_MAX`]. One more slot is reserved for administrators. Other requests wait without
//! holding a thread. Accounts are served in turn: before a request starts, every other account starts at most one
//! request that came later, so a user with many expensive requests waits behind their own.

mod processor_time;
mod step_aside;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use homeostat_api::resource::Resource;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use self::processor_time::{ProcessorTimeDebts, measure_processor_time};
pub(crate) use self::step_aside::step_aside;
use self::step_aside::{PermitCell, run_with_permit};
use crate::auth::{Identity, MASTERS, account_of};

/// The body size from which on a request is expensive: about ten times a large Deployment, or a millisecond of work.
pub(crate) const EXPENSIVE_BYTES: usize = 64 * 1024;
/// The amount of memory from which on a request is expensive: many small parts take the most, and a user may have two
/// hundred writes in progress.
pub(crate) const EXPENSIVE_MEMORY_BYTES: usize = 512 * 1024;
/// The number of requests that run at once, equal to the cores of a small machine: the threads that serve connections
/// still get half of the processor time.
const AT_ONCE: usize = 2;
/// Additional slots for administrators, so that they can always act.
const ADMINISTRATORS_EXTRA: usize = 1;
/// The maximum memory of the bodies and objects that are processed at the same time. A request takes up to four times
/// what it reads (the old object, the new one, its managed fields, and its bytes), so 160 MB with this limit; a larger
/// request runs alone.
const MEMORY_AT_ONCE_MAX: usize = 40 * 1024 * 1024;

/// The cost of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestCost {
    /// The size of the text in bytes.
    pub(crate) bytes: usize,
    /// The approximate memory that the parsed text takes.
    pub(crate) memory: usize,
}

impl RequestCost {
    /// Returns whether the request must leave the threads that serve connections.
    pub(crate) fn is_expensive(self) -> bool {
        self.bytes >= EXPENSIVE_BYTES || self.memory >= EXPENSIVE_MEMORY_BYTES
    }

    /// Returns the cost of a request whose text is also kept in another form: while that is made, twice.
    pub(crate) fn with_copy_of_text(self) -> Self {
        Self { memory: self.memory.saturating_add(self.bytes.saturating_mul(2)), ..self }
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
    /// The requests of all users that stepped aside.
    aside: RunningRequests,
    /// The accounts with waiting requests, the one whose turn it is first.
    waiting: VecDeque<WaitingAccount>,
}

/// The waiting requests of one account: first come, first served.
#[derive(Debug)]
struct WaitingAccount {
    account: Account,
    requests: VecDeque<WaitingRequest>,
}

/// Identifies whose turn it is: the account that limits apply to, and whether it acts as an administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    name: Arc<str>,
    is_administrator: bool,
}

/// The requests that are being processed.
#[derive(Debug, Default)]
struct RunningRequests {
    count: usize,
    memory: usize,
    by_account: HashMap<Arc<str>, usize>,
}

/// A user's access to the queue, for work that is done while a response is sent: pieces of lists, watch events.
#[derive(Clone, Debug)]
pub(crate) struct UserQueue {
    requests: ExpensiveRequests,
    account: Account,
}

#[derive(Clone, Debug)]
struct QueuedRequest {
    account: Account,
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

    /// Runs the work of a request with this cost. Dropping the future before its turn leaves nothing behind.
    pub(crate) async fn run<F: Future>(&self, cost: RequestCost, who: &Identity, work: F) -> F::Output {
        if !cost.is_expensive() {
            return work.await;
        }
        let permit = self.user_queue(who).acquire_permit(cost).await;
        run_with_permit(PermitCell::new(permit), work).await
    }

    /// Returns the cost of a write, including the recent cost of this user's writes to the resource.
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

    /// Runs a write with this cost, as [`run`](Self::run) does, and remembers its processor time. Administrators are
    /// not charged.
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

    /// Returns this user's access to the queue.
    pub(crate) fn user_queue(&self, who: &Identity) -> UserQueue {
        let account = Account { name: account_of(who).into(), is_administrator: who.is_in(MASTERS) };
        UserQueue { requests: self.clone(), account }
    }

    async fn wait_for_turn(&self, request: QueuedRequest) -> RunPermit {
        let (start, started) = oneshot::channel();
        self.queue().enqueue(WaitingRequest { request, start });
        self.start_next();
        started.await.expect("every waiting request is started eventually")
    }

    /// Starts every waiting request that may run now.
    fn start_next(&self) {
        loop {
            let mut queue = self.queue();
            let Some(WaitingRequest { request, start }) = queue.take_ready() else { return };
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
    /// Runs work with this cost. This must not be called while holding a permit: it would wait for itself.
    pub(crate) async fn run_when_permitted<T>(&self, cost: RequestCost, work: impl FnOnce() -> T) -> T {
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
        let request =
            QueuedRequest { account: self.account.clone(), memory: cost.memory.min(MEMORY_AT_ONCE_MAX) };
        self.requests.wait_for_turn(request).await
    }
}

impl RequestQueue {
    fn enqueue(&mut self, waiting: WaitingRequest) {
        let account = &waiting.request.account;
        if let Some(known) = self.waiting.iter_mut().find(|one| one.account == *account) {
            known.requests.push_back(waiting);
        } else {
            let account = account.clone();
            self.waiting.push_back(WaitingAccount { account, requests: [waiting].into() });
        }
    }

    /// Removes and returns the first waiting request that may start now, or one that was dropped and only has to leave
    /// the queue.
    fn take_ready(&mut self) -> Option<WaitingRequest> {
        let (account, request) = self.next_ready()?;
        let requests = &mut self.waiting.get_mut(account)?.requests;
        let ready = requests.remove(request)?;
        if requests.is_empty() {
            self.waiting.remove(account);
        }
        Some(ready)
    }

    /// Returns the positions of the next account and of its request that [`take_ready`](Self::take_ready) takes.
    fn next_ready(&self) -> Option<(usize, usize)> {
        let mut is_short_of_memory = false;
        let mut is_ready = |WaitingRequest { request, start }: &WaitingRequest| {
            let is_administrator = request.account.is_administrator;
            if start.is_closed() {
                return true;
            }
            if !self.may_run(request) || !is_administrator && is_short_of_memory {
                return false;
            }
            let running = if is_administrator { &self.administrators } else { &self.users };
            let fits = running.count == 0 || running.memory + request.memory <= MEMORY_AT_ONCE_MAX;
            // Smaller requests must not overtake a large one forever.
            is_short_of_memory |= !fits && !is_administrator;
            fits
        };
        self.waiting.iter().enumerate().find_map(|(at, account)| {
            account.requests.iter().position(&mut is_ready).map(|request| (at, request))
        })
    }

    /// Lets all other accounts have their turn before this one.
    fn end_turn(&mut self, account: &Account) {
        if let Some(at) = self.waiting.iter().position(|one| one.account == *account)
            && let Some(waiting) = self.waiting.remove(at)
        {
            self.waiting.push_back(waiting);
        }
    }

    fn may_run(&self, request: &QueuedRequest) -> bool {
        let all = self.users.count + self.administrators.count;
        if request.account.is_administrator {
            return all < AT_ONCE + ADMINISTRATORS_EXTRA;
        }
        all < AT_ONCE + ADMINISTRATORS_EXTRA
            && self.users.count < AT_ONCE
            && !self.users.by_account.contains_key(&request.account.name)
    }

    fn running(&mut self, request: &QueuedRequest) -> &mut RunningRequests {
        if request.account.is_administrator { &mut self.administrators } else { &mut self.users }
    }

    fn begin(&mut self, request: &QueuedRequest) {
        self.running(request).add(request);
        self.end_turn(&request.account);
    }

    fn end(&mut self, request: &QueuedRequest) {
        self.running(request).remove(request);
        // Requests that arrived while it was running go first.
        self.end_turn(&request.account);
    }
}

impl RunningRequests {
    fn add(&mut self, request: &QueuedRequest) {
        self.count += 1;
        self.memory += request.memory;
        *self.by_account.entry(Arc::clone(&request.account.name)).or_default() += 1;
    }

    fn remove(&mut self, request: &QueuedRequest) {
        self.count -= 1;
        self.memory -= request.memory;
        match self.by_account.get_mut(&request.account.name) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.by_account.remove(&request.account.name)),
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

    /// Runs four times the work that would block two threads, and a user who needs a response in the meantime.
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
        assert!(queue.users.count == 0 && queue.users.by_account.is_empty() && queue.users.memory == 0);
    }

    /// Two users with very many requests each keep both slots busy, and nobody else waits for more than one of theirs.
    #[tokio::test]
    async fn accounts_are_served_in_turn() {
        let requests = ExpensiveRequests::new();
        let acquire = |name: &str| {
            let (requests, who) = (requests.clone(), user(name));
            Box::pin(async move { requests.acquire_permit(LARGE, &who).await })
        };
        let attackers = ["system:serviceaccount:a:one", "system:serviceaccount:b:one"];
        let [first, second] = attackers.map(|name| acquire(name).now_or_never().expect("a place is free"));
        let mut waiting = (0..200).map(|at| acquire(attackers[at % 2])).collect::<Vec<_>>();
        assert!(waiting.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        let [mut joe, mut jim, mut same] = ["joe", "jim", "system:serviceaccount:a:two"].map(acquire);
        assert!([&mut joe, &mut jim, &mut same].into_iter().all(|turn| turn.now_or_never().is_none()));
        drop(first);
        let joe = joe.now_or_never().expect("he waits for one request");
        drop(second);
        let jim = jim.now_or_never().expect("and so does he");
        drop((joe, jim));
        let mut rounds = 0;
        let same = loop {
            if let Some(permit) = (&mut same).now_or_never() {
                break permit;
            }
            rounds += 1;
            let mut started = Vec::new();
            waiting.retain_mut(|turn| turn.now_or_never().map(|permit| started.push(permit)).is_none());
            assert_eq!(started.len(), 2, "both attackers are served in round {rounds}");
            drop(started);
            // A task of tokio may only receive so much before it yields.
            tokio::task::yield_now().await;
        };
        assert_eq!((rounds, waiting.len()), (100, 0), "the same account waits behind its own requests");
        drop(same);
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
