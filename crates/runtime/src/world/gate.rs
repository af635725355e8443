//! The one door to the outside: rate limit, calls in flight, time limit and circuit breaker around every call.
//!
//! **Invariant:** while the breaker is open only the patrol's probe passes; every other call is turned away without
//! being sent and its object is parked until the breaker closes (`tests/it/world/outages.rs`).

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::breaker::Breaker;
use super::bucket::Bucket;
use super::contract::Answer;
use super::failure::Failure;
use super::policy::Limits;
use crate::error::Error;
use crate::fault::Fault;

/// Why a step outside was not taken.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The breaker is open: nothing was sent.
    Blocked,
    /// It was sent and failed.
    Failed(Failure),
    /// The cluster's side of the step failed: the intent could not be written, the lease is lost.
    Cluster(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Cluster(error)
    }
}

impl From<Stopped> for Fault {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Blocked => "the API outside does not answer".into(),
            Stopped::Failed(failure) => failure.into(),
            Stopped::Cluster(error) => error.into(),
        }
    }
}

/// The door.
pub(super) struct Gate {
    limits: Limits,
    books: Mutex<Books>,
    slots: Semaphore,
}

struct Books {
    breaker: Breaker,
    bucket: Bucket,
}

impl Gate {
    pub(super) fn new(limits: Limits) -> Self {
        let breaker = Breaker::new(limits.failures, limits.probe, limits.probe_max);
        let bucket = Bucket::new(limits.per_second, limits.burst, Instant::now());
        let slots = Semaphore::new(limits.in_flight.max(1));
        Self { limits, books: Mutex::new(Books { breaker, bucket }), slots }
    }

    /// Makes a call, unless the breaker is open.
    pub(super) async fn call<T>(&self, call: impl Future<Output = Answer<T>>) -> Result<T, Stopped> {
        if !self.is_closed() {
            return Err(Stopped::Blocked);
        }
        let _slot = self.turn().await;
        // It may have opened while this call waited for its turn.
        if !self.is_closed() {
            return Err(Stopped::Blocked);
        }
        self.send(call).await.map_err(Stopped::Failed)
    }

    /// Makes a call also when the breaker is open: the patrol's, when the time of the probe has come.
    pub(super) async fn probe<T>(&self, call: impl Future<Output = Answer<T>>) -> Answer<T> {
        let _slot = self.turn().await;
        self.send(call).await
    }

    /// Waits for a free slot and for a token.
    async fn turn(&self) -> SemaphorePermit<'_> {
        let slot = self.slots.acquire().await.expect("the gate never closes its slots");
        let wait = self.books().bucket.take(Instant::now());
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
        self.learn(answer.as_ref().err());
        answer
    }

    fn learn(&self, failure: Option<&Failure>) {
        let now = Instant::now();
        let mut books = self.books();
        if let Some(Failure::Busy(after)) = failure {
            books.bucket.pause(now + *after);
        }
        match failure {
            Some(failure) if failure.is_outage() => books.breaker.failed(now),
            _ => books.breaker.succeeded(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.books().breaker.is_closed()
    }

    /// When the next probe may be sent; none while calls pass.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        self.books().breaker.probe_at()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
