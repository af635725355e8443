//! Options of what was declared last: filters for everything, attempts for handlers. An option that does not fit what
//! was declared does not compile.

use std::sync::Arc;
use std::time::Duration;

use super::agenda::Role;
use super::declare::Handlers;
use super::filter::{self, Is};
use super::policy::RetryPolicy;
use super::timer::Schedule;
use crate::kind::Kind;
use crate::kind::object::Object;
use crate::kind::object::ObjectTest;
use crate::queue::Backoff;

/// Nothing was declared yet.
#[derive(Debug)]
pub enum Nothing {}

/// A handler was declared last.
#[derive(Debug)]
pub enum Handler {}

/// A timer was declared last.
#[derive(Debug)]
pub enum Timer {}

/// A daemon was declared last.
#[derive(Debug)]
pub enum Daemon {}

/// A listener was declared last.
#[derive(Debug)]
pub enum Listener {}

mod sealed {
    /// Where what was declared last is found.
    #[derive(Clone, Copy)]
    pub enum Sort {
        Entry,
        Daemon,
        Listener,
    }

    /// Something that has filters.
    pub trait Filtered {
        const SORT: Sort;
    }

    /// Something that is tried again.
    pub trait Tried {}
}
pub(super) use sealed::Sort;
use sealed::{Filtered, Tried};

impl Filtered for Handler {
    const SORT: Sort = Sort::Entry;
}
impl Tried for Handler {}

impl Filtered for Timer {
    const SORT: Sort = Sort::Entry;
}
impl Tried for Timer {}

impl Filtered for Daemon {
    const SORT: Sort = Sort::Daemon;
}

impl Filtered for Listener {
    const SORT: Sort = Sort::Listener;
}

impl<K: Kind, L: Filtered> Handlers<K, L> {
    /// Calls the handler only for objects whose label is this: `.label("tier", "gold")`, `.label("tier", Is::Present)`.
    pub fn label(self, name: impl Into<String>, is: impl Into<Is>) -> Self {
        self.filter(filter::label(name.into(), is.into()))
    }

    /// Calls the handler only for objects whose annotation is this.
    pub fn annotation(self, name: impl Into<String>, is: impl Into<Is>) -> Self {
        self.filter(filter::annotation(name.into(), is.into()))
    }

    /// Calls the handler only for objects whose field has this value: `.field(|claim| claim.spec.tier.clone(),
    /// "gold".to_owned())`.
    pub fn field<V>(self, field: impl Fn(&K) -> V + Send + Sync + 'static, value: V) -> Self
    where
        V: PartialEq + Send + Sync + 'static,
    {
        self.when(move |object| field(object) == value)
    }

    /// Calls the handler only for objects that pass this test.
    pub fn when(self, test: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.filter(Arc::new(move |object: &Object| test(object.as_type())))
    }

    fn filter(mut self, test: ObjectTest) -> Self {
        self.plan.filters_of_last(L::SORT).push(test);
        self
    }
}

impl<K: Kind, L: Tried> Handlers<K, L> {
    /// Retries the handler at most this many times for one state of the object (without limit by default).
    pub fn retries(self, retries: u32) -> Self {
        self.policy(|policy| policy.retries = Some(retries))
    }

    /// Retries the handler for this long after its first attempt, over restarts (without limit by default). An attempt
    /// that is running when the time is over is cancelled at its next await.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.policy(|policy| policy.timeout = Some(timeout))
    }

    /// Sets the pauses between attempts (1 s, 2 s, 4 s … 5 min by default).
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.policy(|policy| policy.backoff = backoff)
    }

    fn policy(mut self, change: impl FnOnce(&mut RetryPolicy)) -> Self {
        change(&mut self.plan.last_entry().policy);
        self
    }
}

impl<K: Kind> Handlers<K, Timer> {
    /// Counts the interval from the start of one call to the start of the next (by default from its end).
    pub fn sharp(self) -> Self {
        self.schedule(|schedule| schedule.is_sharp = true)
    }

    /// Ticks only when spec, labels and annotations have been the same for this long.
    pub fn idle(self, idle: Duration) -> Self {
        self.schedule(|schedule| schedule.idle = Some(idle))
    }

    /// Makes the first call this long after the object's creation (at once by default).
    pub fn initial_delay(self, delay: Duration) -> Self {
        self.schedule(|schedule| schedule.initial_delay = delay)
    }

    fn schedule(mut self, change: impl FnOnce(&mut Schedule)) -> Self {
        if let Role::Timer(schedule) = &mut self.plan.last_entry().role {
            change(schedule);
        }
        self
    }
}

impl<K: Kind> Handlers<K, Daemon> {
    /// Sets the pauses before a failed daemon is started again (1 s, 2 s, 4 s … 5 min by default).
    pub fn restart(mut self, backoff: Backoff) -> Self {
        self.plan.last_daemon().backoff = backoff;
        self
    }

    /// Sets how long the daemon may take to end when it is told to stop (5 s by default); after that it is cancelled at
    /// its next await.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.plan.last_daemon().grace = grace;
        self
    }
}
