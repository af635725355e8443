//! Limits every call to the external API: its rate, the number of calls in flight, their duration, and a circuit
//! breaker.
//!
//! **Invariant:** while the breaker is open only probes from `drift_and_leak_scan` are sent; every other call is
//! refused without being sent and its object is parked until the breaker closes (`tests/it/world/outages.rs`).
//! Leadership for an object is checked at the last moment, after all waiting (`tests/it/world/fencing.rs`).

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::circuit_breaker::CircuitBreaker;
use super::failure::Failure;
use super::token_bucket::TokenBucket;
use super::world_policy::Limits;
use super::world_trait::Answer;
use crate::error::Error;
use crate::fault::Fault;

/// The reason an external call was not made, or failed.
#[derive(Debug)]
pub(super) enum CallStopped {
    /// Nothing was sent, because the breaker is open for this reason.
    Blocked(String),
    /// It was sent and failed.
    Failed(Failure),
    /// The step failed on the cluster's side: the intent could not be written, or the lease was lost.
    Cluster(Error),
}

impl From<Error> for CallStopped {
    fn from(error: Error) -> Self {
        Self::Cluster(error)
    }
}

impl From<CallStopped> for Fault {
    fn from(stopped: CallStopped) -> Self {
        match stopped {
            CallStopped::Blocked(why) => why.into(),
            CallStopped::Failed(failure) => failure.into(),
            CallStopped::Cluster(error) => error.into(),
        }
    }
}

/// Rate limiter and circuit breaker for one world.
pub(super) struct CallLimiter {
    limits: Limits,
    state: Mutex<LimiterState>,
    slots: Semaphore,
    /// Requests a probe that finds out whether the API itself fails or only calls for some objects.
    suspicion: Notify,
}

struct LimiterState {
    breaker: CircuitBreaker,
    bucket: TokenBucket,
    /// The error from the last call that got no response.
    failure: String,
}

impl CallLimiter {
    pub(super) fn new(limits: Limits) -> Self {
        let breaker = CircuitBreaker::new(limits.failures, limits.probe, limits.probe_max);
        let bucket = TokenBucket::new(limits.per_second, limits.burst, Instant::now());
        let slots = Semaphore::new(limits.in_flight.max(1));
        let state = LimiterState { breaker, bucket, failure: String::new() };
        Self { limits, state: Mutex::new(state), slots, suspicion: Notify::new() }
    }

    /// Makes a call, unless the breaker is open.
    pub(super) async fn call<T>(&self, call: impl Future<Output = Answer<T>>) -> Result<T, CallStopped> {
        self.write(|| Ok(()), call).await
    }

    /// Makes a call, unless the breaker is open or, once its turn has come, `check_leadership` fails.
    pub(super) async fn write<T>(
        &self,
        check_leadership: impl FnOnce() -> Result<(), CallStopped>,
        call: impl Future<Output = Answer<T>>,
    ) -> Result<T, CallStopped> {
        self.passes()?;
        let _slot = self.turn().await;
        // It may have opened while this call waited for its turn.
        self.passes()?;
        check_leadership()?;
        let answer = self.send(call).await;
        self.learn(answer.as_ref().err());
        answer.map_err(CallStopped::Failed)
    }

    /// Makes a call even if the breaker is open; for full passes, when the next probe is due.
    pub(super) async fn probe<T>(&self, call: impl Future<Output = Answer<T>>) -> Answer<T> {
        let _slot = self.turn().await;
        let answer = self.send(call).await;
        self.learn_from_probe(answer.as_ref().err());
        answer
    }

    /// Waits until a probe is needed to find out whether the API responds.
    pub(super) async fn suspected(&self) {
        self.suspicion.notified().await;
    }

    fn passes(&self) -> Result<(), CallStopped> {
        let state = self.state();
        if state.breaker.is_closed() {
            return Ok(());
        }
        Err(CallStopped::Blocked(format!("the API outside does not answer: {}", state.failure)))
    }

    /// Waits for a free slot and for a token.
    async fn turn(&self) -> SemaphorePermit<'_> {
        let slot = self.slots.acquire().await.expect("the limiter never closes its slots");
        let wait = self.state().bucket.take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        slot
    }

    async fn send<T>(&self, call: impl Future<Output = Answer<T>>) -> Answer<T> {
        let late = || Failure::from(format!("no answer within {:?}", self.limits.timeout));
        let answer = match tokio::time::timeout(self.limits.timeout, call).await {
            Ok(answer) => answer,
            Err(_) => Err(late()),
        };
        if let Err(Failure::Busy(after)) = &answer {
            self.state().bucket.pause(Instant::now() + *after);
        }
        answer
    }

    fn learn(&self, failure: Option<&Failure>) {
        let mut state = self.state();
        match failure.filter(|failure| failure.is_outage()) {
            None => state.breaker.succeeded(),
            Some(failure) => {
                state.failure = failure.to_string();
                if state.breaker.failed(Instant::now()) {
                    self.suspicion.notify_one();
                }
            }
        }
    }

    fn learn_from_probe(&self, failure: Option<&Failure>) {
        let mut state = self.state();
        match failure.filter(|failure| failure.is_outage()) {
            None => state.breaker.probe_succeeded(Instant::now()),
            Some(failure) => {
                state.failure = failure.to_string();
                state.breaker.probe_failed(Instant::now());
            }
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state().breaker.is_closed()
    }

    /// Returns when the next probe may be sent; `None` while calls are allowed.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.state().breaker.probe_at()
    }

    fn state(&self) -> MutexGuard<'_, LimiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
