//! A tenure is one uninterrupted leadership of a part of the keys, together with the work done under it.
//!
//! Running work holds a [`Permit`], which is counted, so that the election knows when leadership may be handed over. A
//! [`TenureClaim`] is the same without the count, for values that may outlive the run: it only says whether the tenure
//! under which the work began still lasts.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use homeostat_core::Key;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FenceAnswer, HeldShard, fenced_client};
use crate::error::Error;

/// One uninterrupted leadership of a part of the keys.
pub(crate) struct Tenure {
    term: Arc<TenureTerm>,
    is_closing: AtomicBool,
    /// Shared with earlier tenures of the same part: work that began under them may still be finishing.
    active: Arc<AtomicUsize>,
    client: OnceLock<Client>,
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("term", &self.term)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

/// How long a tenure lasts.
#[derive(Debug)]
pub(super) struct TenureTerm {
    end: Mutex<Instant>,
    over: CancellationToken,
}

impl TenureTerm {
    /// Returns whether the tenure still lasts.
    pub(super) fn is_valid(&self) -> bool {
        !self.over.is_cancelled() && Instant::now() < *self.end()
    }

    fn end(&self) -> MutexGuard<'_, Instant> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tenure {
    fn new(end: Instant, active: Arc<AtomicUsize>) -> Arc<Self> {
        let term = Arc::new(TenureTerm { end: Mutex::new(end), over: CancellationToken::new() });
        Arc::new(Self { term, is_closing: AtomicBool::new(false), active, client: OnceLock::new() })
    }

    /// Returns the tenure that lasts until this time: the previous one, renewed, or a new one if there was none or it
    /// has ended.
    pub(super) fn renewed(former: Option<&Arc<Self>>, until: Instant) -> Arc<Self> {
        match former {
            Some(former) if former.renew(until) => former.clone(),
            Some(former) => {
                former.end();
                Self::new(until, former.active.clone())
            }
            None => Self::new(until, Arc::default()),
        }
    }

    /// Returns the tenure of a shard. A shard that is to be handed over is renewed but never restarted.
    pub(super) fn shard(former: Option<&Arc<Self>>, right: HeldShard) -> Arc<Self> {
        let tenure = match former {
            Some(former) if right.is_closing => {
                former.renew(right.until);
                former.clone()
            }
            _ => Self::renewed(former, right.until),
        };
        tenure.is_closing.store(right.is_closing, Ordering::Release);
        tenure
    }

    fn renew(&self, until: Instant) -> bool {
        let mut end = self.term.end();
        let lasts = !self.term.over.is_cancelled() && Instant::now() < *end;
        if lasts {
            *end = until;
        }
        lasts
    }

    pub(super) fn enter(self: &Arc<Self>) -> FenceAnswer {
        // The election closes a tenure under the lock that guards this call, and counts the work in progress
        // afterwards.
        if self.is_open() { FenceAnswer::Granted(Permit::under(self)) } else { FenceAnswer::Suspended }
    }

    /// Returns whether it still lasts.
    pub(super) fn is_valid(&self) -> bool {
        self.term.is_valid()
    }

    /// Returns whether work may start under it.
    pub(super) fn is_open(&self) -> bool {
        self.term.is_valid() && !self.is_closing.load(Ordering::Acquire)
    }

    /// Ends it, even if work is in progress.
    pub(super) fn end(&self) {
        self.term.over.cancel();
    }

    /// Ends it if its time is up; returns whether this call ended it.
    pub(super) fn lapse(&self, now: Instant) -> bool {
        let has_lapsed = !self.term.over.is_cancelled() && *self.term.end() <= now;
        if has_lapsed {
            self.end();
        }
        has_lapsed
    }

    /// Returns when it ends unless renewed; `None` if it has ended.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        (!self.term.over.is_cancelled()).then(|| *self.term.end())
    }

    /// Returns the number of runs in progress.
    pub(super) fn active(&self) -> usize {
        self.active.load(Ordering::Acquire)
    }
}

/// The tenure under which work began. Without an election there is no tenure and the claim never ends.
#[derive(Clone, Debug)]
pub(crate) struct TenureClaim(Option<Arc<Tenure>>);

impl TenureClaim {
    /// Refuses a write to `target` if the tenure has ended.
    pub(crate) fn refuse_if_deposed(&self, target: &Key) -> Result<(), Error> {
        if self.is_valid() { Ok(()) } else { Err(Error::Fenced { target: target.clone() }) }
    }

    /// Returns whether it has lasted until now.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.as_ref().is_none_or(|tenure| tenure.is_valid())
    }

    /// Returns a client whose writes are refused once the tenure has ended.
    pub(crate) fn client<'a>(&'a self, whole: &'a Client) -> &'a Client {
        match &self.0 {
            None => whole,
            Some(tenure) => tenure.client.get_or_init(|| fenced_client::fenced(whole, &tenure.term)),
        }
    }
}

/// The permission of work in progress, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit(TenureClaim);

impl Permit {
    pub(super) fn unlimited() -> Self {
        Self(TenureClaim(None))
    }

    fn under(tenure: &Arc<Tenure>) -> Self {
        tenure.active.fetch_add(1, Ordering::AcqRel);
        Self(TenureClaim(Some(tenure.clone())))
    }

    /// Returns the same tenure without counting as work in progress.
    pub(crate) fn claim(&self) -> &TenureClaim {
        &self.0
    }

    /// Runs the future while the tenure lasts; returns `None` and cancels the future if the tenure ends first.
    pub(crate) async fn run<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        match &self.0.0 {
            None => Some(future.await),
            Some(tenure) => tenure.term.over.run_until_cancelled(future).await,
        }
    }

    /// Waits until the tenure has ended.
    pub(crate) async fn ended(&self) {
        match &self.0.0 {
            None => std::future::pending().await,
            Some(tenure) => tenure.term.over.cancelled().await,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(tenure) = &self.0.0 {
            tenure.active.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
