//! Requests that may take long to think about: large bodies, changes of large objects, lists that are made whole.
//!
//! Parsing and judging an object is done where its request runs, and nothing can interrupt it; a thousand times the usual size
//! would stop what else runs there for a thousand times as long. So large ones leave the threads that serve
//! connections, a few at a time, and everybody else is answered meanwhile.
//!
//! **Invariant:** at most [`AT_ONCE`] requests of users are thought about at once, one of each user, and what they take in memory
//! together stays below [`MEMORY_AT_ONCE_MAX`]. One more turn is the administrators' alone. Others wait without holding a
//! thread; who asks for much waits behind themselves.

mod allowance;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use self::allowance::{Allowances, measured};
use crate::auth::{Identity, MASTERS};
use crate::resource::Resource;

/// Bytes from which on a request is heavy: some ten times a large Deployment, or a millisecond of work.
pub(crate) const HEAVY_BYTES: usize = 64 * 1024;
/// Memory from which on a request is heavy: small parts take most, and two hundred writes of a user may be under way.
pub(crate) const HEAVY_MEMORY_BYTES: usize = 512 * 1024;
/// As many as there are cores on a small machine: the threads that serve connections still get half of it.
const AT_ONCE: usize = 2;
/// Turns of administrators beside those, so that they can always act.
const ADMINISTRATORS_EXTRA: usize = 1;
/// Memory of the bodies and objects thought about at once. A request takes up to four times what it reads (the old object,
/// the new one, who manages it, and its bytes), so 160 MB with this; one larger than that runs alone.
const MEMORY_AT_ONCE_MAX: usize = 40 * 1024 * 1024;

/// How much there is to think about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    /// Bytes of text.
    pub(crate) bytes: usize,
    /// What the text takes in memory, about.
    pub(crate) memory: usize,
}

impl Weight {
    /// Must it leave the threads that serve connections?
    pub(crate) fn is_heavy(self) -> bool {
        self.bytes >= HEAVY_BYTES || self.memory >= HEAVY_MEMORY_BYTES
    }
}

/// Where heavy requests wait for their turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heavy {
    lanes: Arc<Mutex<Lanes>>,
    allowances: Arc<Allowances>,
}

#[derive(Debug, Default)]
struct Lanes {
    users: Running,
    administrators: Running,
    /// First come, first served, those who may not start yet passed over.
    waiting: VecDeque<Waiting>,
}

/// Requests that are thought about.
#[derive(Debug, Default)]
struct Running {
    count: usize,
    memory: usize,
    by_user: HashMap<Arc<str>, usize>,
}

/// A user's way to the heavy work of what is made while it is sent: pieces of lists, events of watches.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    heavy: Heavy,
    user: Arc<str>,
    is_administrator: bool,
}

#[derive(Clone, Debug)]
struct Request {
    user: Arc<str>,
    is_administrator: bool,
    memory: usize,
}

#[derive(Debug)]
struct Waiting {
    request: Request,
    start: oneshot::Sender<Turn>,
}

/// The right to be thought about, until dropped.
#[derive(Debug)]
struct Turn {
    lanes: Heavy,
    request: Request,
}

impl Heavy {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Runs the work of a request of this weight. Dropping the future before its turn leaves nothing behind.
    pub(crate) async fn run<F: Future>(&self, weight: Weight, who: &Identity, work: F) -> F::Output {
        if !weight.is_heavy() {
            return work.await;
        }
        let _turn = self.lane(who).turn(weight).await;
        // On a runtime with one thread there is nobody to leave the thread to.
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => work.await,
            _ => tokio::task::block_in_place(|| Handle::current().block_on(work)),
        }
    }

    /// The weight of a write, with what this user's writes of the resource have cost lately.
    pub(crate) fn weigh_write(&self, weight: Weight, who: &Identity, resource: &Resource) -> Weight {
        let is_costly = || self.allowances.is_used_up(self.allowances.account(who, resource));
        if weight.is_heavy() || who.is_in(MASTERS) || !is_costly() {
            return weight;
        }
        Weight { bytes: HEAVY_BYTES, ..weight }
    }

    /// Runs a write of this weight, as [`run`](Self::run) does, and remembers what it cost. Administrators are trusted.
    pub(crate) async fn run_write<F: Future>(
        &self,
        weight: Weight,
        who: &Identity,
        resource: &Resource,
        work: F,
    ) -> F::Output {
        if who.is_in(MASTERS) {
            return self.run(weight, who, work).await;
        }
        let account = self.allowances.account(who, resource);
        let (output, spent) = self.run(weight, who, measured(work)).await;
        self.allowances.charge(account, spent);
        output
    }

    /// Where this user's heavy work waits.
    pub(crate) fn lane(&self, who: &Identity) -> Lane {
        Lane { heavy: self.clone(), user: (*who.name).into(), is_administrator: who.is_in(MASTERS) }
    }

    /// Starts whoever may.
    fn start_next(&self) {
        loop {
            let mut lanes = self.lanes();
            let Some(at) = lanes.next() else { return };
            let Some(Waiting { request, start }) = lanes.waiting.remove(at) else { return };
            if start.is_closed() {
                continue;
            }
            lanes.begin(&request);
            drop(lanes);
            // Whoever went at this very moment gives the turn back by dropping it.
            let _ = start.send(Turn { lanes: self.clone(), request });
        }
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// Makes something of this weight. Must not be called by what has a turn already: it would wait for itself.
    pub(crate) async fn make<T>(&self, weight: Weight, work: impl FnOnce() -> T) -> T {
        if !weight.is_heavy() {
            return work();
        }
        let _turn = self.turn(weight).await;
        match Handle::current().runtime_flavor() {
            RuntimeFlavor::CurrentThread => work(),
            _ => tokio::task::block_in_place(work),
        }
    }

    async fn turn(&self, weight: Weight) -> Turn {
        let request = Request {
            user: Arc::clone(&self.user),
            is_administrator: self.is_administrator,
            memory: weight.memory.min(MEMORY_AT_ONCE_MAX),
        };
        let (start, started) = oneshot::channel();
        self.heavy.lanes().waiting.push_back(Waiting { request, start });
        self.heavy.start_next();
        started.await.expect("whoever waits is started in the end")
    }
}

impl Lanes {
    /// The first in the queue that may start now.
    fn next(&self) -> Option<usize> {
        let mut is_short_of_memory = false;
        self.waiting.iter().position(|Waiting { request, start }| {
            // Nobody waits for it any more: it only leaves the queue.
            if start.is_closed() {
                return true;
            }
            if !self.has_turn(request) || !request.is_administrator && is_short_of_memory {
                return false;
            }
            let running = if request.is_administrator { &self.administrators } else { &self.users };
            let fits = running.count == 0 || running.memory + request.memory <= MEMORY_AT_ONCE_MAX;
            // A large one is not overtaken for ever by smaller ones.
            is_short_of_memory |= !fits && !request.is_administrator;
            fits
        })
    }

    fn has_turn(&self, request: &Request) -> bool {
        let all = self.users.count + self.administrators.count;
        if request.is_administrator {
            return all < AT_ONCE + ADMINISTRATORS_EXTRA;
        }
        all < AT_ONCE + ADMINISTRATORS_EXTRA
            && self.users.count < AT_ONCE
            && !self.users.by_user.contains_key(&request.user)
    }

    fn running(&mut self, request: &Request) -> &mut Running {
        if request.is_administrator { &mut self.administrators } else { &mut self.users }
    }

    fn begin(&mut self, request: &Request) {
        let running = self.running(request);
        running.count += 1;
        running.memory += request.memory;
        *running.by_user.entry(Arc::clone(&request.user)).or_default() += 1;
    }

    fn end(&mut self, request: &Request) {
        let running = self.running(request);
        running.count -= 1;
        running.memory -= request.memory;
        match running.by_user.get_mut(&request.user) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(running.by_user.remove(&request.user)),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.lanes.lanes().end(&self.request);
        self.lanes.start_next();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;

    const LARGE: Weight = Weight { bytes: HEAVY_BYTES, memory: 1024 };

    fn user(name: &str) -> Identity {
        Identity { name: name.into(), ..Identity::default() }
    }

    impl Heavy {
        async fn turn(&self, weight: Weight, who: &Identity) -> Turn {
            self.lane(who).turn(weight).await
        }
    }

    /// Four times the work that would stop two threads, and somebody who wants to be answered.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[expect(clippy::disallowed_methods, reason = "the work of this test is to occupy its thread")]
    async fn others_are_served_while_heavy_requests_are_thought_about() {
        let heavy = Heavy::new();
        let work = || async { std::thread::sleep(Duration::from_millis(300)) };
        let tasks: Vec<_> = (0..8)
            .map(|at| {
                let heavy = heavy.clone();
                tokio::spawn(async move { heavy.run(LARGE, &user(&format!("user-{at}")), work()).await })
            })
            .collect();
        let mut answered = 0;
        while tasks.iter().any(|task| !task.is_finished()) {
            tokio::spawn(tokio::time::sleep(Duration::from_millis(5))).await.expect("nobody panics");
            answered += 1;
        }
        assert!(answered > 40, "{answered} answers in more than a second");
    }

    #[tokio::test]
    async fn one_user_delays_nobody_else_and_administrators_always_have_a_turn() {
        let heavy = Heavy::new();
        let first = heavy.turn(LARGE, &user("jane")).await;
        let mut others: Vec<_> =
            (0..12).map(|_| Box::pin(async { heavy.turn(LARGE, &user("jane")).await })).collect();
        assert!(
            others.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()),
            "one turn for each user"
        );
        let (joe, jim) = (user("joe"), user("jim"));
        let joe = heavy.turn(LARGE, &joe).now_or_never().expect("joe need not wait for jane");
        let mut jim = Box::pin(heavy.turn(LARGE, &jim));
        assert!(jim.as_mut().now_or_never().is_none(), "there are two turns for users");
        let admin = heavy.turn(LARGE, &Identity::admin()).now_or_never().expect("one turn is theirs");
        drop((joe, admin));
        let jim = jim.now_or_never().expect("joe made room");
        drop((first, jim));
        others.remove(0).now_or_never().expect("it was first in the queue");
        drop(others);
        let all: Vec<_> =
            (0..3).filter_map(|_| heavy.turn(LARGE, &Identity::admin()).now_or_never()).collect();
        assert_eq!(all.len(), 3, "those who went away hold nothing");
        let lanes = heavy.lanes();
        assert!(lanes.users.count == 0 && lanes.users.by_user.is_empty() && lanes.users.memory == 0);
    }

    #[tokio::test]
    async fn writes_that_cost_more_than_their_size_tells_leave_the_serving_threads() {
        let heavy = Heavy::new();
        let pods = &Resource::built_in()
            .into_iter()
            .find(|resource| &*resource.plural == "pods")
            .expect("it is built in");
        let small = Weight { bytes: 100, memory: 100 };
        let (jane, joe, admin) = (user("jane"), user("joe"), Identity::admin());
        let busy = || async { while measured_so_far() < Duration::from_millis(80) {} };
        for who in [&jane, &admin] {
            assert!(!heavy.weigh_write(small, who, pods).is_heavy());
            STARTED.set(None);
            heavy.run_write(small, who, pods, busy()).await;
        }
        assert!(heavy.weigh_write(small, &jane, pods).is_heavy());
        assert!(
            !heavy.weigh_write(small, &joe, pods).is_heavy()
                && !heavy.weigh_write(small, &admin, pods).is_heavy()
        );
    }

    thread_local! {
        static STARTED: std::cell::Cell<Option<Duration>> = const { std::cell::Cell::new(None) };
    }

    /// The processor time since this was first asked.
    fn measured_so_far() -> Duration {
        let now = allowance::processor_time();
        let started = STARTED.get().unwrap_or(now);
        STARTED.set(Some(started));
        now.saturating_sub(started)
    }

    #[tokio::test]
    async fn what_takes_much_memory_runs_alone_and_is_not_overtaken() {
        let heavy = Heavy::new();
        let whole = Weight { bytes: HEAVY_BYTES, memory: 10 * MEMORY_AT_ONCE_MAX };
        let [jane, joe, jim] = ["jane", "joe", "jim"].map(user);
        let first = heavy.turn(whole, &jane).await;
        let mut second = Box::pin(heavy.turn(whole, &joe));
        let mut small = Box::pin(heavy.turn(LARGE, &jim));
        assert!(second.as_mut().now_or_never().is_none() && small.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
        assert!(small.now_or_never().is_some());
    }
}
