//! Runs the keys that the queue hands out: one task per controller starts workers when there is work, up to the limit;
//! a worker takes one key after another until none is left, then exits. There is no task per reconcile and no idle
//! worker.
//!
//! **Invariant:** a reconcile that panics is that object's failure; the worker continues (`reconcile_once` catches the
//! panic). **Invariant:** a run holds a permit from the fence; when its tenure ends it is cancelled at its next await,
//! and the permit is dropped only after that. On shutdown no new key is taken; runs may finish within the grace period
//! and are then dropped.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use homeostat_core::Key;
use homeostat_core::journal::{Entry, FaultClass, RequestedNext, WatchState};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub(crate) mod controller_queue;
mod span_links;

use controller_queue::{ControllerQueue, FinishedRun, PermittedWork, WorkerSlot};

use crate::action::Action;
use crate::cache::Freshness;
use crate::fault::Fault;
use crate::fence::{Fence, TenureClaim};
use crate::queue::{DispatchedKey, Outcome};

/// Reconciles one key.
pub(crate) trait Runner: Send + Sync + 'static {
    /// Returns the span of a run of this key, with its causes.
    fn span(&self, work: &DispatchedKey) -> tracing::Span;

    /// Runs it with this permit.
    fn run<'a>(&'a self, work: &'a DispatchedKey, claim: &'a TenureClaim) -> BoxFuture<'a, RunResult>;
}

/// The result of a reconcile.
#[derive(Debug)]
pub(crate) enum RunResult {
    Settled(Action),
    Failed(Fault),
    /// The object no longer exists.
    Gone,
    /// A failure that does not concern the object: it stops the operator.
    Abandoned,
}

/// Runs the keys of one controller's queue.
pub(crate) struct WorkerPool {
    pub(crate) queue: ControllerQueue,
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) fence: Fence,
    /// How fresh the cache of the main kind is.
    pub(crate) freshness: watch::Receiver<Freshness>,
    /// The maximum number of concurrent reconciles.
    pub(crate) concurrency: usize,
    /// How long running reconciles may take after a stop.
    pub(crate) grace: Duration,
}

impl WorkerPool {
    /// Works until `stop`, then until the running reconciles finish or the grace period is over.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut workers = JoinSet::new();
        let mut rights = self.fence.subscribe();
        let mut was_failing = false;
        while !stop.is_cancelled() {
            let is_failing = matches!(self.freshness.borrow_and_update().state, WatchState::Failing { .. });
            if was_failing && !is_failing {
                self.queue.reconnected(Instant::now());
            }
            was_failing = is_failing;
            let deadline = self.start_workers(&mut workers, &stop);
            let sleep = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            // A finished worker is only reaped: it exited because there was nothing to do.
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.queue.wait_until_woken() => {}
                () = sleep => {}
                _ = rights.changed() => {}
                // The sender lives in the cache, which lives as long as the operator.
                _ = self.freshness.changed() => {}
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
        let (slots, deadline) = self.queue.free_slots(self.concurrency, Instant::now());
        for slot in slots {
            workers.spawn(run_worker(
                slot,
                self.queue.clone(),
                self.runner.clone(),
                self.fence.clone(),
                stop.clone(),
            ));
        }
        deadline
    }
}

async fn run_worker(
    mut slot: WorkerSlot,
    queue: ControllerQueue,
    runner: Arc<dyn Runner>,
    fence: Fence,
    stop: CancellationToken,
) {
    let may_go_on = || !stop.is_cancelled() && fence.is_open();
    let mut started = Instant::now();
    let mut next = if may_go_on() { slot.next(started) } else { None };
    while let Some(PermittedWork { mut work, permit }) = next {
        let span = runner.span(&work);
        queue.span_links().link(&work.key, &span);
        note_start(&queue, &mut work);
        let unfinished = RunInProgress { queue: &queue, key: &work.key, started };
        // If the tenure ends first, the run is dropped here, before anything else is done.
        let verdict = permit.run(runner.run(&work, permit.claim()).instrument(span.clone())).await;
        std::mem::forget(unfinished);
        let now = Instant::now();
        let times = RunTimes { started, now, may_go_on: may_go_on() };
        next = match &verdict {
            Some(RunResult::Abandoned) => {
                stop.cancelled().await;
                interrupt(&mut slot, &work, RunTimes { may_go_on: false, ..times })
            }
            Some(verdict) => finish_run(&mut slot, &queue, &work, verdict, times),
            None => {
                let (controller, object) = (queue.source(), &work.key);
                tracing::info!(%controller, %object, "reconcile cut off: this replica no longer holds the lease it began under");
                interrupt(&mut slot, &work, times)
            }
        };
        // The result of the run is recorded, so another replica may take over now.
        drop(permit);
        if verdict.as_ref().is_none_or(comes_back) {
            queue.span_links().add(&work.key, &span);
        }
        started = now;
        // Reconciles that never wait must not keep the thread from other tasks.
        tokio::task::coop::consume_budget().await;
    }
}

fn note_start(queue: &ControllerQueue, work: &mut DispatchedKey) {
    let causes = std::mem::take(&mut work.causes);
    let DispatchedKey { key, failures, waited, .. } = work;
    let entry = Entry::Started { object: key.clone(), causes, failures: *failures, waited: *waited };
    queue.journal().record(queue.source(), entry);
}

/// A run in progress. If it is dropped together with its worker at the end of the grace period, this is recorded.
struct RunInProgress<'a> {
    queue: &'a ControllerQueue,
    key: &'a Key,
    started: Instant,
}

impl Drop for RunInProgress<'_> {
    fn drop(&mut self) {
        let took = Instant::now() - self.started;
        let entry = Entry::Cancelled { object: self.key.clone(), took };
        self.queue.journal().record(self.queue.source(), entry);
    }
}

/// When a run started and ended, and whether its worker will take another key.
#[derive(Clone, Copy)]
struct RunTimes {
    started: Instant,
    now: Instant,
    may_go_on: bool,
}

/// Interrupts a run that did not finish. The key is due again at once, for the replica that leads it by then.
fn interrupt(slot: &mut WorkerSlot, work: &DispatchedKey, times: RunTimes) -> Option<PermittedWork> {
    let ended = FinishedRun { work, outcome: Outcome::Interrupted, at: times.now, is_cut_off: false };
    let (object, took) = (work.key.clone(), times.now - times.started);
    slot.finish_and_take_next(ended, times.may_go_on, |_| Some(Entry::Cancelled { object, took }))
}

fn finish_run(
    slot: &mut WorkerSlot,
    queue: &ControllerQueue,
    work: &DispatchedKey,
    verdict: &RunResult,
    times: RunTimes,
) -> Option<PermittedWork> {
    let outcome = match verdict {
        RunResult::Settled(action) => action.outcome(),
        RunResult::Failed(fault) => fault.outcome(),
        RunResult::Gone => Outcome::Gone,
        RunResult::Abandoned => Outcome::Interrupted,
    };
    let is_cut_off = matches!(verdict, RunResult::Failed(fault) if fault.is_cut_off());
    let ended = FinishedRun { work, outcome, at: times.now, is_cut_off };
    let took = times.now - times.started;
    let object = work.key.clone();
    let RunResult::Failed(fault) = verdict else {
        let next = if outcome == Outcome::Gone { RequestedNext::Gone } else { next_after(outcome) };
        // This is recorded before the queue is locked, because all workers wait for that lock.
        queue.journal().record(queue.source(), Entry::Settled { object, next, took });
        return slot.finish_and_take_next(ended, times.may_go_on, |_| None);
    };
    let error = fault.chain();
    let (mut retry, failures) = (None, work.failures.saturating_add(1));
    let taken = slot.finish_and_take_next(ended, times.may_go_on, |delay| {
        retry = delay;
        let fault = fault_class(fault, delay.unwrap_or_default());
        Some(Entry::Failed { object, error: error.clone(), fault, failures, took })
    });
    let (controller, object) = (queue.source(), &work.key);
    // The watches report once that the server is unreachable, so it need not be reported for every object.
    if is_cut_off || fault.is_expected(object, work.failures) {
        tracing::debug!(%controller, %object, error, ?retry, "reconcile failed");
    } else {
        tracing::warn!(%controller, %object, error, ?retry, "reconcile failed");
    }
    taken
}

/// Returns whether this run causes another one, unless something else does.
fn comes_back(verdict: &RunResult) -> bool {
    match verdict {
        RunResult::Settled(action) => !action.is_settled(),
        RunResult::Failed(fault) => !fault.is_terminal(),
        RunResult::Gone | RunResult::Abandoned => false,
    }
}

fn next_after(outcome: Outcome) -> RequestedNext {
    match outcome {
        Outcome::Requeue(after) => RequestedNext::Requeue { after },
        _ => RequestedNext::AwaitChange,
    }
}

fn fault_class(fault: &Fault, after: Duration) -> FaultClass {
    match fault {
        fault if fault.is_terminal() => FaultClass::Terminal,
        fault if fault.is_panic() => FaultClass::Panic { after },
        _ => FaultClass::Retry { after },
    }
}
