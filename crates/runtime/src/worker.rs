//! Runs what the queue hands out: one pump task per controller starts workers when there is work, up to the limit;
//! a worker takes key after key until there is none, then ends. No task per reconcile, no idle worker.
//!
//! **Invariant:** a reconcile that panics is that object's failure; the worker lives on (`engine` catches it).
//! On shutdown no new key is taken; what runs may finish until the grace is over and is then dropped.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use homeostat_core::journal::{Entry, FaultClass, Next};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::action::Action;
use crate::fault::Fault;
use crate::fence::Fence;
use crate::inbox::{Inbox, Seat};
use crate::queue::{Outcome, Work};

/// Reconciles one key.
pub(crate) trait Runner: Send + Sync + 'static {
    fn run<'a>(&'a self, work: &'a Work) -> BoxFuture<'a, Verdict>;
}

/// How a reconcile ended.
#[derive(Debug)]
pub(crate) enum Verdict {
    Settled(Action),
    Failed(Fault),
    /// There is no such object any more.
    Gone,
}

/// What a pump needs.
pub(crate) struct Pump {
    pub(crate) inbox: Inbox,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) fence: Fence,
    /// Reconciles at a time.
    pub(crate) concurrency: usize,
    /// How long running reconciles may take after the stop.
    pub(crate) grace: Duration,
}

impl Pump {
    /// Works until `stop`, then until the running reconciles end or the grace is over.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut workers = JoinSet::new();
        let mut rights = self.fence.subscribe();
        while !stop.is_cancelled() {
            let deadline = self.start_workers(&mut workers, &stop);
            let sleep = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // A finished worker is only reaped: it ended because there was nothing to do.
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.inbox.woken() => {}
                () = sleep => {}
                _ = rights.changed() => {}
            }
            while workers.try_join_next().is_some() {}
        }
        let _ =
            tokio::time::timeout(self.grace, async { while workers.join_next().await.is_some() {} }).await;
        workers.shutdown().await;
    }

    fn start_workers(&self, workers: &mut JoinSet<()>, stop: &CancellationToken) -> Option<Instant> {
        if !self.fence.is_open() {
            return None;
        }
        let (seats, deadline) = self.inbox.seats(self.concurrency, Instant::now());
        for seat in seats {
            workers.spawn(work(
                seat,
                self.inbox.clone(),
                self.runner.clone(),
                self.fence.clone(),
                stop.clone(),
            ));
        }
        deadline
    }
}

async fn work(mut seat: Seat, inbox: Inbox, runner: Arc<dyn Runner>, fence: Fence, stop: CancellationToken) {
    let mut now = Instant::now();
    while !stop.is_cancelled()
        && fence.is_open()
        && let Some(work) = seat.next(now)
    {
        let started = now;
        note_start(&inbox, &work);
        let verdict = runner.run(&work).await;
        now = Instant::now();
        settle(&inbox, &work, &verdict, started, now);
        // Reconciles that never wait must not keep the thread from other tasks.
        tokio::task::coop::consume_budget().await;
    }
}

fn note_start(inbox: &Inbox, work: &Work) {
    let Work { key, causes, failures, waited, .. } = work;
    let entry =
        Entry::Started { object: key.clone(), causes: causes.clone(), failures: *failures, waited: *waited };
    inbox.journal().record(inbox.source(), entry);
}

fn settle(inbox: &Inbox, work: &Work, verdict: &Verdict, started: Instant, now: Instant) {
    let outcome = match verdict {
        Verdict::Settled(action) => action.outcome(),
        Verdict::Failed(fault) => fault.outcome(),
        Verdict::Gone => Outcome::Gone,
    };
    let delay = inbox.done(work, outcome, now);
    let object = work.key.clone();
    let took = now - started;
    let entry = match verdict {
        Verdict::Gone => Entry::Settled { object, next: Next::Gone, took },
        Verdict::Settled(_) => Entry::Settled { object, next: next(outcome), took },
        Verdict::Failed(fault) => {
            let error = fault.chain();
            let after = delay.unwrap_or_default();
            tracing::warn!(controller = %inbox.source(), %object, %error, retry = ?delay, "reconcile failed");
            let failures = work.failures.saturating_add(1);
            Entry::Failed { object, error, fault: class(fault, after), failures, took }
        }
    };
    inbox.journal().record(inbox.source(), entry);
}

fn next(outcome: Outcome) -> Next {
    match outcome {
        Outcome::Requeue(after) => Next::Requeue { after },
        _ => Next::AwaitChange,
    }
}

fn class(fault: &Fault, after: Duration) -> FaultClass {
    match fault {
        fault if fault.is_terminal() => FaultClass::Terminal,
        fault if fault.is_panic() => FaultClass::Panic { after },
        _ => FaultClass::Retry { after },
    }
}
